"""`kill -9` of a topic's owner, and of the server that takes topics over. A worker without Spark carries the links."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from websockets.asyncio.client import connect

from fairlead.process import control_secret
from fairlead.storage.local import ReadOnlyLocalStorage
from tests.gateway.rig import Worker
from tests.support.records import read_all
from tests.support.sites import Site, sites
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.crash

TOPICS = int(os.environ.get("FAIRLEAD_TEST_TOPICS", "4000"))
CARGO = "/cargo"
HERE, THERE = "/here", "/there"


@asynccontextmanager
async def carrying(site: Site) -> AsyncIterator[None]:
    """Somebody carries the links of that cluster."""
    secret = (site.data / control_secret.FILE).read_text()
    url = site.url.replace("http", "ws", 1)

    def control(path: str) -> connect:
        return connect(f"{url}/control/{path}", additional_headers={control_secret.HEADER: secret})

    storage = ReadOnlyLocalStorage(site.data)
    face = SimpleNamespace(control=control, cluster=SimpleNamespace(storage=storage))
    async with Worker(cast(Any, face), f"for-{site.name}"):
        yield


def asked(site: Site, route: str, **params: Any) -> list[dict[str, Any]]:
    answer = httpx.get(f"{site.url}/rest/{route}", params=params, timeout=WAIT_SECONDS).json()
    assert answer["status"] == "OK", answer
    data: list[dict[str, Any]] = answer["data"]
    return data


def at(site: Site) -> str:
    return f"/mapr/{site.name}{CARGO}"


def link(source: Site, replica: Site) -> None:
    source.cli("stream", "replica", "add", "-path", at(source), "-replica", at(replica))


def written(site: Site, *values: str) -> None:
    """Records of the topic, acknowledged one by one. Raises: KafkaException."""
    producer = Producer({"bootstrap.servers": site.kafka, "message.timeout.ms": int(WAIT_SECONDS * 1000)})
    failed: list[Any] = []
    for value in values:
        producer.produce(f"{CARGO}:box", value, on_delivery=lambda error, _: failed.append(error))
        producer.flush()
    for error in filter(None, failed):
        raise KafkaException(error)


def values(site: Site, topic: str = "box") -> dict[int, bytes | None]:
    found = read_all(site.kafka, [topic], prefix=f"{CARGO}:")
    return {place.offset: content.value for place, content in sorted(found.items())}


def end(site: Site, topic: str = "box") -> int:
    """Log end; 0 if there is no such topic."""
    if topic not in [row["topic"] for row in asked(site, "stream/topic/list", path=CARGO)]:
        return 0
    return int(asked(site, "stream/topic/info", path=CARGO, topic=topic)[0]["maxoffset"]) + 1


async def arrived(site: Site, offset: int) -> None:
    while await asyncio.to_thread(end, site) != offset:
        """Each look is a call."""


def owner(site: Site) -> str:
    return str(asked(site, "stream/topic/info", path=CARGO, topic="box")[0]["owner"])


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Site]]:
    """Tokyo, a ship and Singapore, all linked to each other."""
    with sites(
        tmp_path, "tokyo", "ship", "singapore", settings={"merge_interval_seconds": "0.5"}, command="server"
    ) as found:
        for site in found:
            site.cli("cluster", "add", "-http", site.url)
            site.cli("stream", "create", "-path", at(site))
        pairs = [(one, other) for one in found for other in found if one is not other]
        for source, replica in pairs:
            replica.cli("stream", "upstream", "add", "-path", at(replica), "-upstream", at(source))
        for source, replica in pairs:
            link(source, replica)
        found[0].cli("stream", "topic", "create", "-path", at(found[0]), "-topic", "box", "-partitions", "1")
        yield list(found)


async def test_an_owner_that_was_killed_is_fenced_when_it_returns(three: list[Site]) -> None:
    """The ship takes over what Singapore has of Tokyo's, goes on there, and Tokyo's own tail is kept. Nothing that was
    acknowledged anywhere is missing."""
    tokyo, ship, singapore = three
    async with carrying(tokyo):
        await asyncio.to_thread(written, tokyo, "0", "1", "2")
        await arrived(ship, 3)
        pause = ("stream", "replica", "pause", "-path", at(tokyo), "-replica")
        await asyncio.to_thread(tokyo.cli, *pause, at(ship))
        await asyncio.to_thread(written, tokyo, "3", "4")
        await arrived(singapore, 5)
        await asyncio.to_thread(tokyo.cli, *pause, at(singapore))
        await asyncio.to_thread(written, tokyo, "only tokyo 5", "only tokyo 6")
    tokyo.kill()
    take = ("stream", "topic", "takeover", "-path", at(ship), "-from", "tokyo", "--yes")
    done = ship.cli(*take)
    assert done.stdout == "1 topics taken over, 2 records came from neighbours first\n"
    assert f"{at(tokyo)} owns 1 topics here; it was last heard" in done.stderr
    assert f"asked {at(singapore)}: it answers" in done.stderr
    written(ship, "ship 5")
    tokyo.start("server")
    async with carrying(ship):
        await until_known(tokyo, at(ship))
        await arrived(tokyo, 6)
        await arrived(singapore, 6)
    with pytest.raises(KafkaException):
        written(tokyo, "too late")
    known = {0: b"0", 1: b"1", 2: b"2", 3: b"3", 4: b"4", 5: b"ship 5"}
    assert [values(site) for site in three] == [known, known, known]
    kept = "box.diverged.tokyo.0"
    wait_until(lambda: end(tokyo, kept) == 7, "the tail is kept")
    assert values(tokyo, kept) == {5: b"only tokyo 5", 6: b"only tokyo 6"}


async def until_known(site: Site, path: str) -> None:
    """The site has heard of the topic's owner."""
    while await asyncio.to_thread(owner, site) != path:
        """Each look is a call."""


def test_a_takeover_of_very_many_topics_resumes_after_kill(tmp_path: Path) -> None:
    """It goes on by itself from the batch that was cut off; each topic is taken over, none is left out."""
    with sites(tmp_path, "sanfrancisco", command="server") as (site,):
        site.cli("cluster", "add", "-http", site.url)
        for source, replica in ((HERE, THERE), (THERE, HERE)):
            site.cli("stream", "create", "-path", source)
            site.cli("stream", "upstream", "add", "-path", source, "-upstream", replica)
        for source, replica in ((HERE, THERE), (THERE, HERE)):
            site.cli("stream", "replica", "add", "-path", source, "-replica", replica)
        admin = AdminClient({"bootstrap.servers": site.kafka})
        names = [f"container-{number:05}" for number in range(TOPICS)]
        made = admin.create_topics([NewTopic(f"{HERE}:{name}", 1) for name in names], request_timeout=WAIT_SECONDS)
        for future in made.values():
            future.result(WAIT_SECONDS)
        there = f"/mapr/{site.name}{THERE}"
        line = ("stream", "topic", "transfer", "-path", HERE, "-topic", "container-[0-9]+", "-to", there)
        site.cli(*line, "-force", "-oneway", "--yes")
        # Nobody carries, so the new owner never hears of it: this stream takes its topics back.
        site.cli("stream", "topic", "takeover", "-path", HERE, "-from", there, "--yes", "--nowait")
        wait_until(lambda: job(site)["done"] > 0, "a batch is done")
        site.kill()
        site.start("server")
        wait_until(lambda: job(site)["state"] != "running", "the job has ended")
        ended = job(site)
        assert (ended["state"], ended["done"], ended["refused"]) == ("done", TOPICS, 0)
        # What the batch that was cut off had taken over is owned here already when it has its turn again.
        assert TOPICS - 500 <= ended["changed"] <= TOPICS
        here = [row["topic"] for row in asked(site, "stream/topic/list", path=HERE, owner=f"/mapr/{site.name}{HERE}")]
        assert here == names


def job(site: Site) -> dict[str, Any]:
    return next(row for row in asked(site, "job/list") if row["kind"] == "takeover")
