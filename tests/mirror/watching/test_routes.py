"""What people, programs and Prometheus see of a mirror, and what they may do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fairlead.listening.guard import Guard
from fairlead.mirror.ports import Place
from fairlead.mirror.running.mirror import Mirror
from fairlead.mirror.watching.looking import Looking
from fairlead.mirror.watching.routes import build_app
from fairlead.web.mirror_page import render_mirror
from tests.mirror.test_mirror import numbers
from tests.mirror.world import CLOCK, World
from tests.support.waiting import a_quiet_while, until


class Flow:
    """A flow of a process."""

    def __init__(self, label: str, mirror: Mirror | None) -> None:
        self.label = label
        self.name = f"mm2.{label}"
        self.mirror = mirror
        self.paused = False
        self.ended = False
        self.failed: str | None = None

    def pause(self, paused: bool) -> None:
        self.paused = paused
        if self.mirror is not None:
            self.mirror.pause(paused)


class Watcher:
    """Who watches it."""

    def __init__(self, client: httpx.AsyncClient, looking: Looking, mirror: Mirror, flows: Sequence[Flow]) -> None:
        self.flows = flows
        self.client = client
        self.looking = looking
        self.mirror = mirror

    async def get(self, path: str) -> httpx.Response:
        await self.looking.look([self.mirror])
        return await self.client.get(path)

    async def flow(self, label: str = "A->B") -> dict[str, Any]:
        """Its status."""
        rows = (await self.get("/rest/mirror/status")).json()["data"]
        return next(row for row in rows if row["label"] == label)

    async def metrics(self) -> dict[tuple[str, ...], float]:
        """Of the flow that runs, by the name without what all have in common, topic and partition."""
        text = (await self.get("/metrics")).text
        return {
            (sample.name.removeprefix("fairlead_mirror_"), *_named(sample.labels)): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.labels["flow"] == "A->B"
        }


def _named(labels: dict[str, str]) -> list[str]:
    return [labels[label] for label in ("topic", "partition") if label in labels]


@asynccontextmanager
async def watching(world: World, **given: Any) -> AsyncIterator[Watcher]:
    """A mirror that runs and is watched, beside a flow whose destination does not answer."""
    looking = Looking(CLOCK)
    async with world.running(**given) as mirror:
        flows = [Flow("A->B", mirror), Flow("A->C", None)]
        app = build_app(flows, looking, CLOCK, Guard(CLOCK))
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield Watcher(client, looking, mirror, flows)


async def test_status_says_how_far_each_partition_is(world: World) -> None:
    """And each topic, with what was done to its batches."""
    world.a.make("t", 2)
    world.a.put("t", 1, numbers(0, 5))
    async with watching(world, prefix="A.") as watcher:
        await until(lambda: watcher.mirror.tally.records == 5)
        flow = await watcher.flow()
        assert (flow["state"], flow["name"], flow["waits"], flow["stops"]) == ("running", "mm2.A->B", [], {})
        (topic,) = flow["topics"]
        assert (topic["source"], topic["topic"], topic["to"]) == ("a", "t", "A.t")
        assert (topic["records"], topic["lag"], topic["lagbytes"], topic["held"]) == (5, 0, 0, 0)
        assert sum(topic["batches"].values()) > 0
        assert [(each["partition"], each["offset"], each["end"]) for each in topic["partitions"]] == [
            (0, 0, 0),
            (1, 5, 5),
        ]


async def test_what_an_open_transaction_holds_is_no_lag(world: World) -> None:
    """It is told by itself."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 8))
    world.a.made["t"].logs[0].held_at = 6
    async with watching(world) as watcher:
        await until(lambda: world.b.values("t") == numbers(0, 6))
        await until(lambda: watcher.mirror.left == 0)
        (topic,) = (await watcher.flow())["topics"]
        assert (topic["lag"], topic["lagseconds"], topic["held"]) == (0, 0, 2)
        found = await watcher.metrics()
        assert found["held_records", "t", "0"] == 2
        assert found["lag_records", "t", "0"] == 0


async def test_what_stands_still_is_told_with_its_reason(world: World) -> None:
    """On the page, in the status, in the metrics; lag grows meanwhile."""
    world.a.make("t<")
    world.a.put("t<", 0, numbers(0, 3))
    world.b.refuses = lambda topic, partition, outgoing: "too <large>" if topic == "t<" else None
    async with watching(world) as watcher:
        await until(lambda: watcher.mirror.tally.stops != {})
        flow = await watcher.flow()
        assert "too <large>" in flow["stops"]["topic t<, partition 0"]
        assert (flow["topics"][0]["lag"], flow["topics"][0]["stopped"]) == (3, 1)
        found = await watcher.metrics()
        assert found["stopped", "t<", "0"] == 1
        assert found["lag_records", "t<", "0"] == 3
        page = (await watcher.get("/")).text
        assert "too &lt;large&gt;" in page
        assert "t<," not in page
        health = (await watcher.get("/health")).json()
        assert health["status"] == "degraded"
        assert any("too <large>" in reason for reason in health["reasons"])


async def test_a_flow_that_has_ended_for_a_failure_is_not_shown_as_running(world: World) -> None:
    """Nor as one that waits, if it never began: on the page, in the status, in the metrics, with its reason."""
    world.a.make("t")
    async with watching(world) as watcher:
        await until(lambda: watcher.mirror.sources != [])
        for each in watcher.flows:
            each.ended, each.failed = True, "mirror m was taken <over>"
        assert [(await watcher.flow(label))["state"] for label in ("A->B", "A->C")] == ["ended", "ended"]
        health = (await watcher.get("/health")).json()
        assert health["status"] == "degraded"
        assert health["reasons"] == [f"{label}: it has ended: mirror m was taken <over>" for label in ("A->B", "A->C")]
        found = await watcher.metrics()
        assert (found["ended",], found["waiting",]) == (1, 0)
        page = (await watcher.get("/")).text
        assert "mirror m was taken &lt;over&gt;" in page
        assert "/rest/mirror/pause" not in page


async def test_what_does_not_go_along_is_told_for_as_long_as_it_does_not(world: World) -> None:
    """With its reason, each time somebody looks."""
    world.a.make("t")
    world.a.group_offsets["bad"] = {Place("t", 0): (0, -1)}
    world.a.hidden = {"bad"}
    reason = "A->B: a, consumer groups: group bad: group bad: GROUP_AUTHORIZATION_FAILED"
    async with watching(world) as watcher:
        await until(lambda: watcher.mirror.tally.failing)
        for _ in range(2):
            assert reason in (await watcher.get("/health")).json()["reasons"]
        assert (await watcher.metrics())["failing",] == 1
        assert "GROUP_AUTHORIZATION_FAILED" in (await watcher.get("/")).text
        world.a.hidden = set()
        await until(lambda: not watcher.mirror.tally.failing)
        assert reason not in (await watcher.get("/health")).json()["reasons"]
        assert (await watcher.metrics())["failing",] == 0


async def test_how_long_a_topic_is_behind_is_shown_in_whole_seconds(world: World) -> None:
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    async with watching(world) as watcher:
        await until(lambda: watcher.mirror.tally.records == 3)
        row = await watcher.flow()
        row["topics"][0] |= {"lag": 3, "lagseconds": 125.4}
        assert "<td>2 min</td>" in render_mirror("1", [row])


async def test_lost_offsets_and_loops_are_counted(world: World) -> None:
    """Gaps for ever, what came from the destination since the start."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 3))
    await world.once()
    world.a.put("t", 0, numbers(3, 9))
    world.a.made["t"].logs[0].expire(5)
    async with watching(world, on_gap="continue") as watcher:
        await until(lambda: world.b.values("t") == [*numbers(0, 3), *numbers(5, 9)])
        await until(lambda: watcher.mirror.left == 0)
        found = await watcher.metrics()
        assert found["gone_offsets", "t", "0"] == 2
        assert found["lost_offsets_total",] == 2
        assert found["looped_records_total",] == 0


async def test_a_paused_mirror_mirrors_nothing_until_it_is_told_to_go_on(world: World) -> None:
    """It runs on: its positions and its holder are written, and nothing that came meanwhile is lost."""
    world.a.make("t")
    world.a.put("t", 0, numbers(0, 2))
    async with watching(world) as watcher:
        await until(lambda: world.b.values("t") == numbers(0, 2))
        await until(lambda: watcher.mirror.left == 0)
        answer = await watcher.client.post("/rest/mirror/pause", params={"flow": "A->B"})
        assert answer.json()["data"] == [{"flow": "A->B", "state": "paused"}]
        world.a.put("t", 0, numbers(2, 5))
        await a_quiet_while()
        assert world.b.values("t") == numbers(0, 2)
        flow = await watcher.flow()
        assert (flow["state"], flow["topics"][0]["lag"]) == ("paused", 3)
        assert (await watcher.flow("A->C"))["state"] == "waiting"
        assert (await watcher.metrics())["paused",] == 1
        await watcher.client.post("/rest/mirror/resume")
        await until(lambda: world.b.values("t") == numbers(0, 5))
        assert (await watcher.flow())["state"] == "running"
    assert "paused" in world.said
    assert "goes on" in world.said


async def test_a_partition_that_is_found_while_paused_waits_too(world: World) -> None:
    """And so does a mirror that was paused before it began."""
    world.a.make("t")
    mirror = world.mirror()
    mirror.pause(True)
    task = asyncio.create_task(mirror.run())
    world.a.put("t", 0, numbers(0, 2))
    await until(lambda: "t" in world.b.made)
    world.a.make("u")
    world.a.put("u", 0, numbers(0, 2))
    await until(lambda: "u" in world.b.made)
    await a_quiet_while()
    assert (world.b.values("t"), world.b.values("u")) == ([], [])
    mirror.pause(False)
    await until(lambda: world.b.values("t") == world.b.values("u") == numbers(0, 2))
    mirror.stop()
    await task


async def test_the_page_shows_each_flow_with_a_button(world: World) -> None:
    """A form, which leads back to the page."""
    world.a.make("t")
    async with watching(world) as watcher:
        await until(lambda: watcher.mirror.sources != [])
        page = (await watcher.get("/")).text
        assert "<h2>A-&gt;B</h2>" in page
        assert 'action="/rest/mirror/pause?flow=A-%3EB"' in page
        answer = await watcher.client.post("/rest/mirror/pause?flow=A-%3EB", headers={"accept": "text/html"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert "/rest/mirror/resume?flow=A-%3EB" in (await watcher.get("/")).text


@pytest.mark.parametrize("path", ["/rest/mirror/pause", "/rest/mirror/resume"])
async def test_a_get_changes_nothing(world: World, path: str) -> None:
    """Only a POST does, and not one from another site's page or under another name of this machine."""
    async with watching(world) as watcher:
        assert (await watcher.client.get(path)).status_code == 405
        for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
            assert (await watcher.client.post(path, headers=headers)).status_code == 403
        assert (await watcher.client.post(path, headers={"host": "evil.example"})).status_code == 421
        assert not watcher.mirror.paused


async def test_what_is_not_there_is_an_error_that_says_what_is(world: World) -> None:
    """A flow, and a path."""
    async with watching(world) as watcher:
        answer = await watcher.client.post("/rest/mirror/pause", params={"flow": "X->Y"})
        assert answer.status_code == 404
        assert "A->B, A->C" in answer.json()["errors"][0]["desc"]
        answer = await watcher.client.get("/no/such")
        assert answer.status_code == 404
        assert "/rest/mirror/status" in answer.json()["errors"][0]["desc"]
