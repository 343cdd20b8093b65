"""A pair of masters by one command: two clusters as processes, each with Spark."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer

from tests.support.records import differences, read_all
from tests.support.sites import Site, sites
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark

EACH = 500


def paths(stream: str) -> list[str]:
    return ["-path", f"/mapr/sanfrancisco{stream}", "-replica", f"/mapr/newyork{stream}"]


def written(site: Site, stream: str, topic: str) -> None:
    """A topic of the site's own, with records that are acknowledged."""
    site.cli("stream", "topic", "create", "-path", f"/mapr/{site.name}{stream}", "-topic", topic)
    producer = Producer({"bootstrap.servers": site.kafka})
    for number in range(EACH):
        producer.produce(f"{stream}:{topic}", f"{site.name} {number}")
    assert producer.flush(WAIT_SECONDS) == 0


def alike(stream: str, both: tuple[Site, Site], topics: list[str]) -> bool:
    """Both hold all records of these topics, the same at the same offsets."""
    if not all(topics == topics_of(site, stream) and site.in_sync(stream) for site in both):
        return False
    first, second = (read_all(site.kafka, topics, prefix=f"{stream}:") for site in both)
    return len(first) == EACH * len(topics) and not differences(first, second)


def topics_of(site: Site, stream: str) -> list[str]:
    answer = httpx.get(f"{site.url}/rest/stream/topic/list", params={"path": stream}, timeout=WAIT_SECONDS)
    return [row["topic"] for row in answer.json()["data"]]


def test_one_command_makes_two_masters(tmp_path: Path) -> None:
    """Each writes, each has all. Two streams that are there already become masters too; their records are copied both
    ways by `copystream` first, and nothing comes twice."""
    settings = {"round_seconds": "600", "replicator_workers": "1"}
    with sites(tmp_path, "sanfrancisco", "newyork", settings=settings) as (here, there):
        here.cli("stream", "create", "-path", "/mapr/sanfrancisco/ships")
        written(here, "/ships", "before")
        done = here.cli("stream", "replica", "autosetup", *paths("/ships"), "-multimaster", "true", "--wait")
        assert "/mapr/newyork/ships is in step" in done.stdout
        written(here, "/ships", "west")
        written(there, "/ships", "east")
        wait_until(lambda: alike("/ships", (here, there), ["before", "east", "west"]), "all is at both")
        for site, topic in ((here, "west"), (there, "east")):
            site.cli("stream", "create", "-path", f"/mapr/{site.name}/more")
            written(site, "/more", topic)
        given = ("-multimaster", "true", "-useexistingreplica", "true", "-directcopy", "false")
        done = here.cli("stream", "replica", "autosetup", *paths("/more"), *given)
        assert f"copied {EACH} records of /mapr/sanfrancisco/more to /mapr/newyork/more" in done.stdout
        assert f"copied {EACH} records of /mapr/newyork/more to /mapr/sanfrancisco/more" in done.stdout
        wait_until(lambda: alike("/more", (here, there), ["east", "west"]), "all is at both")
        assert [row["duplicates"] for site in (here, there) for row in site.replica_status("/more")] == [0, 0]
