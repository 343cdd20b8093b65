"""`kill -9` of a server while it claims what a diverged topic keeps."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.values import StreamSettings
from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.settings import Settings
from fairlead.protocol.batch import build_batch
from fairlead.storage.local import LocalStorage
from fairlead.streamlog.requests.cuts import cut
from tests.support.batches import produced_to
from tests.support.sites import Site, sites
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.crash

MEGABYTES = int(os.environ.get("FAIRLEAD_TEST_MEGABYTES", "64"))
RECORDS_PER_BATCH, RECORD_BYTES = 64, 1000
BATCHES = MEGABYTES * 1_000_000 // (RECORDS_PER_BATCH * RECORD_BYTES)
PATH, TOPIC, DIVERGED = "/ships", "box", "box.diverged.sanfrancisco.0"
CODECS = (0, 1, 3, 4)


async def with_tail(data: Path, batches: int) -> None:
    """A cluster with a topic of which all was cut off and is kept: compressed in every way, of idempotent producers."""
    choose = random.Random(7)
    with ThreadPoolExecutor(4) as executor:
        cluster = await Cluster.open(
            LocalStorage(data),
            name="sanfrancisco",
            settings=Settings(),
            clock=SystemClock(),
            randomness=SystemRandomness(),
            executor=executor,
        )
        stream = await cluster.create_stream(PATH, StreamSettings())
        topic = await stream.create_topic(TOPIC, 1)
        shard = stream.shard_for(TOPIC)
        for place in range(batches):
            values = [
                b"%d " % (place * RECORDS_PER_BATCH + each) + choose.randbytes(RECORD_BYTES)
                for each in range(RECORDS_PER_BATCH)
            ]
            batch = build_batch(
                [(b"key", value) for value in values],
                codec=CODECS[place % len(CODECS)],
                timestamp_ms=SystemClock().wall_ms(),
                producer_id=4711,
                producer_epoch=0,
                base_sequence=place * RECORDS_PER_BATCH,
            )
            await produced_to(shard, topic.number, 0, batch)
        keep = uuid5(UUID(bytes=topic.incarnation), "0 9").bytes
        await shard.submit(lambda draft: cut(draft, topic.number, 0, 0, "takeover", 9, keep))
        assert shard.copy_tails is not None
        await shard.copy_tails()
        await cluster.close()


@contextmanager
def diverged(folder: Path, batches: int) -> Iterator[Site]:
    """Its server, until the block ends."""
    folder.mkdir()
    asyncio.run(with_tail(folder / "sanfrancisco", batches))
    with sites(folder, "sanfrancisco", command="server") as (site,):
        site.cli("cluster", "add", "-http", site.url)
        yield site


def asked(site: Site, route: str, **params: Any) -> list[dict[str, Any]]:
    answer = httpx.get(f"{site.url}/rest/{route}", params=params, timeout=WAIT_SECONDS).json()
    assert answer["status"] == "OK", answer
    data: list[dict[str, Any]] = answer["data"]
    return data


def job(site: Site) -> dict[str, Any]:
    return asked(site, "job/list")[-1]


def end(site: Site) -> int:
    (row,) = asked(site, "stream/topic/info", path=PATH, topic=TOPIC)
    found: int = row["maxoffset"]
    return found + 1


def read(site: Site) -> Counter[int]:
    """How often each record of the tail is in the topic, as librdkafka reads it; it checks the CRC of each batch."""
    consumer = Consumer(
        {
            "bootstrap.servers": site.kafka,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(f"{PATH}:{TOPIC}", 0, 0)])
    found: Counter[int] = Counter()
    most = end(site)
    while left := most - found.total():
        messages = consumer.consume(min(left, 1000), WAIT_SECONDS)
        assert messages, f"nothing more, and {left} of {most} records are not read"
        for message in messages:
            assert message.error() is None, message.error()
            assert message.key() == b"key"
            found[int(bytes(message.value() or b"").split(b" ", 1)[0])] += 1
    consumer.close()
    return found


def claim_over_kills(site: Site) -> list[int]:
    """Claim all; where the topic ended after each kill that the job has survived as one that still runs."""
    found: list[int] = []
    answer = httpx.post(
        f"{site.url}/rest/stream/topic/claim", params={"path": PATH, "topic": DIVERGED}, timeout=WAIT_SECONDS
    )
    site.kill()
    assert answer.json()["status"] == "OK", answer.text
    site.start("server")
    while job(site)["state"] == "running":
        found.append(end(site))
        wait_until(lambda: end(site) > found[-1] or job(site)["state"] != "running", "some more is claimed")
        site.kill()
        site.start("server")
    return found


def test_a_claim_brings_each_record_once_over_kills(tmp_path: Path) -> None:
    """It goes on by itself, from the last commit that was durable; Kafka's clients read what it wrote. The first kill
    comes at once. Where the claim is done before any, there is more to claim the next time."""
    for batches in (BATCHES << doublings for doublings in count()):
        with diverged(tmp_path / f"{batches}", batches) as site:
            reached = claim_over_kills(site)
            check(site, batches * RECORDS_PER_BATCH)
        if reached:
            print(f"killed before {reached} of {batches * RECORDS_PER_BATCH:,} records")
            return


def check(site: Site, total: int) -> None:
    """All of it is in the topic, once, and is claimed."""
    assert (job(site)["state"], job(site)["refused"]) == ("done", 0)
    (row,) = asked(site, "stream/topic/info", path=PATH, topic=DIVERGED)
    assert (row["divergedfrom"], row["unclaimedrecords"]) == (TOPIC, 0)
    assert read(site) == Counter(range(total))
    assert (
        site.cli("stream", "topic", "claim", "-path", PATH, "-topic", DIVERGED).stdout
        == "0 records of 0 topics claimed; 1 have nothing that is not claimed\n"
    )
