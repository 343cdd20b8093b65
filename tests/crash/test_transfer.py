"""`kill -9` of a server while it hands over very many topics.

`FAIRLEAD_TEST_TOPICS=50000` hands over as many as one command may.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.sites import Site, sites
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.crash

TOPICS = int(os.environ.get("FAIRLEAD_TEST_TOPICS", "8000"))
HERE, THERE = "/here", "/there"


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two streams of one server that are each other's replicas; nobody carries."""
    with sites(tmp_path_factory.mktemp("transfer"), "sanfrancisco", command="server") as (site,):
        site.cli("cluster", "add", "-http", site.url)
        for source, replica in ((HERE, THERE), (THERE, HERE)):
            site.cli("stream", "create", "-path", source)
            site.cli("stream", "upstream", "add", "-path", source, "-upstream", replica)
        for source, replica in ((HERE, THERE), (THERE, HERE)):
            site.cli("stream", "replica", "add", "-path", source, "-replica", replica)
        yield site


def asked(site: Site, route: str, **params: Any) -> list[dict[str, Any]]:
    answer = httpx.get(f"{site.url}/rest/{route}", params=params, timeout=WAIT_SECONDS).json()
    assert answer["status"] == "OK", answer
    data: list[dict[str, Any]] = answer["data"]
    return data


def job(site: Site) -> dict[str, Any]:
    (row,) = asked(site, "job/list")
    return row


def test_transfer_of_50000_topics_resumes_after_kill(site: Site) -> None:
    """It goes on by itself from the batch that was cut off; each topic is handed over once, none is left out."""
    admin = AdminClient({"bootstrap.servers": site.kafka})
    names = [f"container-{number:05}" for number in range(TOPICS)]
    for first in range(0, TOPICS, 10_000):
        made = admin.create_topics(
            [NewTopic(f"{HERE}:{name}", 1) for name in names[first : first + 10_000]], request_timeout=WAIT_SECONDS
        )
        for future in made.values():
            future.result(WAIT_SECONDS)
    line = (
        "stream",
        "topic",
        "transfer",
        "-path",
        HERE,
        "-topic",
        "container-[0-9]+",
        "-to",
        f"/mapr/{site.name}{THERE}",
    )
    begun = json.loads(site.cli(*line, "-force", "-oneway", "--yes", "--nowait", "-json").stdout)["data"][0]
    wait_until(lambda: job(site)["done"] > 0, "a batch is done")
    site.kill()
    site.start("server")
    cut_off = job(site)
    assert cut_off["id"] == begun["id"]
    wait_until(lambda: job(site)["state"] != "running", "the job has ended")
    ended = job(site)
    assert (ended["state"], ended["done"], ended["refused"]) == ("done", TOPICS, 0)
    # What the batch that was cut off had handed over is there already when it has its turn again.
    assert TOPICS - 500 <= ended["changed"] <= TOPICS
    there = [row["topic"] for row in asked(site, "stream/topic/list", path=HERE, owner=f"/mapr/{site.name}{THERE}")]
    assert there == names
    print(f"killed after {cut_off['done']:,} of {TOPICS:,} topics; {ended['changed']:,} were counted as handed over")
