"""What is wrong with a link, and since when: in `replica list`, `/health`, `cluster info` and `/metrics`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.gateway.rig import FAST, REPLICA, SHIPS, SOURCE, Site, Worker
from tests.support import http_calls
from tests.support.waiting import until
from websockets.asyncio.client import ClientConnection

from fairlead.wire.control import ReplicatorState
from fairlead.wire.messages import to_json

WAITING = ReplicatorState(b"p" * 16, 1, "waiting", 0, "")
CARRYING = replace(WAITING, doing="carrying")


@pytest.fixture
async def ny(tmp_path: Path) -> AsyncIterator[Site]:
    """A cluster whose stream accepts the first one's."""
    async with Site("ny", tmp_path) as site:
        await site.stream(SHIPS)
        await site.links.add_upstream(SHIPS, SOURCE)
        yield site


@asynccontextmanager
async def source(folder: Path, ny: Site, **timing: float) -> AsyncIterator[Site]:
    """A cluster with a link to the other."""
    async with Site("sf", folder, replace(FAST, **timing)) as site:
        await site.stream(SHIPS)
        await site.write(SHIPS, "a", b"1")
        await site.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
        yield site


@asynccontextmanager
async def replicator(site: Site, *states: ReplicatorState) -> AsyncIterator[ClientConnection]:
    """A replicator's control connection that has said this."""
    async with site.control("replicator") as socket:
        for state in states:
            await socket.send(to_json(state))
        await until(lambda: site.manager.replicator.now().state == states[-1].doing)
        yield socket


def errors(site: Site) -> dict[str, Any]:
    """Of the only link."""
    (row,) = site.links.list(SHIPS)
    found: dict[str, Any] = row["errors"]
    return found


async def get(site: Site, path: str) -> httpx.Response:
    async with http_calls.client() as client:
        return await client.get(site.url + path)


async def test_a_link_without_a_replicator_has_an_error(tmp_path: Path, ny: Site) -> None:
    """It said REPLICATING, and nothing moved for ever. Health is degraded, which takes no server out of service."""
    async with source(tmp_path, ny, replicator_s=0) as sf:
        assert errors(sf)["Code"] == "ErrReplicatorDown"
        assert f"fairlead replicator --server {sf.url}" in errors(sf)["Msg"]
        assert errors(sf)["Seconds"] >= 0
        answer = await get(sf, "/health")
        assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
        assert "link /ships to /mapr/ny/ships: no replicator is connected" in answer.json()["reasons"][0]
        text = (await get(sf, "/metrics")).text
        assert "fairlead_replicator_up 0.0" in text
        assert 'fairlead_link_errors{replica="/mapr/ny/ships",stream="/ships"} 1.0' in text
        async with replicator(sf, CARRYING):
            assert errors(sf) == {}
            assert (await get(sf, "/health")).json()["status"] == "ok"
            assert "fairlead_replicator_up 1.0" in (await get(sf, "/metrics")).text


async def test_what_a_replicator_says_before_it_gives_up_is_the_error_of_its_links(tmp_path: Path, ny: Site) -> None:
    """Without Java it ends within a second of its start; a paused link has no use for it, and no error."""
    async with source(tmp_path, ny) as sf:
        async with replicator(sf, WAITING, replace(WAITING, doing="failed", failures=1, error="no java found")):
            assert errors(sf)["Msg"] == "the replicator fails: no java found"
        await until(lambda: not sf.manager.replicator.now().alive)
        assert "no java found" in errors(sf)["Msg"]
        (row,) = sf.links.list(SHIPS)
        assert (row["replicator"]["state"], row["replicator"]["error"]) == ("down", "no java found")
        assert "no java found" in (await get(sf, "/health")).text
        assert "fairlead_replicator_restarts_total 1.0" in (await get(sf, "/metrics")).text
        await sf.links.pause(SHIPS, REPLICA)
        assert errors(sf) == {}
        assert (await get(sf, "/health")).json()["status"] == "ok"


async def test_a_link_that_moves_nothing_while_records_wait_has_an_error(tmp_path: Path, ny: Site) -> None:
    """Although its destination answers and its replicator lives; it goes as soon as something arrives."""
    async with source(tmp_path, ny, stalled_s=0.05) as sf, replicator(sf, CARRYING):
        await until(lambda: errors(sf))
        assert errors(sf)["Code"] == "ErrLinkStalled"
        (row,) = sf.links.list(SHIPS)
        assert row["putsPending"] == 1
        assert row["oldestPendingSeconds"] < 3600
        async with Worker(sf):
            await until(lambda: sf.links.list(SHIPS)[0]["isUptodate"])
            assert errors(sf) == {}


async def test_an_idle_link_does_not_stand_still(tmp_path: Path, ny: Site) -> None:
    """Nothing waits; and what is written later has its own minute, however long nothing moved before."""
    async with source(tmp_path, ny, stalled_s=3600) as sf, replicator(sf, CARRYING), Worker(sf) as worker:
        await until(lambda: sf.links.list(SHIPS)[0]["isUptodate"])
        (link,) = sf.manager.running
        link.moved_ms -= 7_200_000
        assert errors(sf) == {}
        worker.hold.clear()
        await sf.write(SHIPS, "a", b"2")
        await until(lambda: sf.links.list(SHIPS)[0]["putsPending"])
        assert errors(sf) == {}


async def test_the_age_of_an_error_is_that_of_the_first_in_a_row(tmp_path: Path, ny: Site) -> None:
    """A dead destination is asked again and again; each refusal is not a new fault."""
    async with source(tmp_path, ny) as sf, replicator(sf, CARRYING):
        await ny.links.remove_upstream(SHIPS, SOURCE)
        await sf.links.resume(SHIPS, REPLICA, rescan=True)
        await until(lambda: errors(sf))
        since = errors(sf)["Since"]
        failures = sf.manager.failures.count
        await until(lambda: sf.manager.failures.count > failures + 2)
        assert errors(sf)["Since"] == since
        (failing,) = sf.links.failing()
        assert (failing["path"], failing["replica"], failing["since"]) == (SHIPS, str(REPLICA), since)
        assert failing["code"] == "ErrUpstreamNotDefined"
