"""The HTTP of the admin interface: methods, forms, errors, description, health, metrics, the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.gateway.desk import Desk, desks
from tests.support.waiting import until

from fairlead.client.catalog import COMMANDS
from fairlead.model.errors import Damaged, StorageUnavailable
from fairlead.streamlog.writing.shard import Shard
from fairlead.web.page import render_page


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with desks("sanfrancisco") as (found,):
        yield found


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.changes], ids=lambda c: c.path)
async def test_a_get_changes_nothing(desk: Desk, command: object) -> None:
    """405, with the method that does it."""
    path = command.path  # type: ignore[attr-defined]
    response = await desk.http.get(f"{desk.url}{path}", params={"path": "/x"})
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert "POST" in response.json()["errors"][0]["desc"]
    assert len(desk.cluster.streams()) == 1


async def test_parameters_come_as_query_form_or_json(desk: Desk) -> None:
    """Their names in any case."""
    http, url = desk.http, f"{desk.url}/rest/stream/create"
    assert (await http.post(url, params={"path": "/query", "TTL": "5"})).json()["status"] == "OK"
    assert (await http.post(url, data={"path": "/form", "autoCreate": "false"})).json()["status"] == "OK"
    assert (await http.post(url, json={"Path": "/json", "ttl": 5})).json()["status"] == "OK"
    assert [stream.path for stream in desk.cluster.streams()] == ["/default", "/form", "/json", "/query"]


DEEP = "[" * 100_000
NOT_UNDERSTOOD = [
    "[1]",
    "{",
    "path",
    DEEP,
    '{"path": ["/x"]}',
    '{"path": "/x\\ud800"}',
    '{"path": "/x", "no\\ud800": 1}',
    '{"path": "/x", "clusters": 5}',
    '{"path": "/x", "clusters": {"a": ["nonsense"]}}',
    '{"path": "/x", "clusters": {"a": ["http://h:99999"]}}',
    f'{{"path": "/x", "clusters": "{DEEP}"}}',
]


@pytest.mark.parametrize("body", NOT_UNDERSTOOD, ids=range(len(NOT_UNDERSTOOD)))
async def test_a_body_that_is_not_understood_is_refused(desk: Desk, body: str) -> None:
    """400, one line, no traceback."""
    url, headers = f"{desk.url}/rest/stream/create", {"content-type": "application/json"}
    response = await desk.http.post(url, content=body, headers=headers)
    assert response.status_code == 400
    assert "\n" not in response.json()["errors"][0]["desc"]


async def test_a_value_that_is_not_built_is_refused_whatever_it_is(desk: Desk) -> None:
    """501. What is no text was said to be a bug, since no answer could hold it."""
    body, headers = '{"path": "/x", "compact": "\\ud800"}', {"content-type": "application/json"}
    response = await desk.http.post(f"{desk.url}/rest/stream/create", content=body, headers=headers)
    assert (response.status_code, response.json()["errors"][0]["code"]) == (501, "not_implemented_yet")
    assert "-compact \\ud800: not implemented yet" in response.json()["errors"][0]["desc"]


async def test_a_long_list_of_streams_is_made_in_turns(desk: Desk) -> None:
    """The sizes of each are counted from its log; Kafka's clients wait meanwhile for no more than one."""
    for number in range(20):
        await desk.post("stream/create", path=f"/s/{number}")

    async def turns(path: str) -> int:
        task, count = asyncio.create_task(desk.get("stream/list", path=path)), 0
        while not task.done():
            await asyncio.sleep(0)
            count += 1
        return count

    assert await turns("/s") >= await turns("/nothing") + 20


async def test_the_page_shows_the_first_streams(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each browser that is open asks for the page every few seconds."""
    monkeypatch.setattr("fairlead.gateway.app.SHOWN_MAX", 2)
    for name in "abc":
        await desk.post("stream/create", path=f"/{name}")
    text = (await desk.http.get(f"{desk.url}/")).text
    assert [path in text for path in (">/a<", ">/b<", ">/c<", ">/default<")] == [True, True, False, False]
    assert "<p>and 2 more</p>" in text


async def test_a_page_of_another_site_changes_nothing(desk: Desk) -> None:
    """A browser says from where a form was sent."""
    url = f"{desk.url}/rest/stream/create"
    evil = await desk.http.post(url, data={"path": "/x"}, headers={"origin": "http://evil"})
    own = await desk.http.post(url, data={"path": "/x"}, headers={"origin": desk.url})
    assert (evil.status_code, own.status_code) == (403, 200)


async def test_an_unknown_route_is_answered_in_the_envelope(desk: Desk) -> None:
    """With the place where all routes are listed."""
    response = await desk.http.get(f"{desk.url}/rest/stream/explode")
    assert response.status_code == 404
    assert "/docs" in response.json()["errors"][0]["desc"]


async def test_a_bug_is_one_line(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """500, and the rest is in the server's log."""
    monkeypatch.setattr(desk.cluster, "stream", lambda path: 1 / 0)
    response = await desk.http.get(f"{desk.url}/rest/stream/info", params={"path": "/x"})
    assert response.status_code == 500
    assert "a bug (ZeroDivisionError" in response.json()["errors"][0]["desc"]


async def test_every_command_is_described(desk: Desk) -> None:
    """OpenAPI has each command once, with all its parameters."""
    paths = (await desk.http.get(f"{desk.url}/openapi.json")).json()["paths"]
    for command in COMMANDS:
        (method,) = paths[command.path]
        assert method == command.method.lower()
        text = str(paths[command.path])
        assert all(f"'{param.name}'" in text for param in command.params)


async def test_health_is_ok(desk: Desk) -> None:
    """For load balancers. A cluster without links needs no replicator."""
    response = await desk.http.get(f"{desk.url}/health")
    assert (response.status_code, response.json()["status"]) == (200, "ok")
    assert response.json()["replicator"]["state"] == "down"


def stop(monkeypatch: pytest.MonkeyPatch, *shards: Shard) -> None:
    """As if these had ended for something that leaves nothing to read."""
    found = StorageUnavailable("x: it is broken")
    monkeypatch.setattr(Shard, "stopped", property(lambda shard: found if shard in shards else None))
    monkeypatch.setattr(Shard, "readable", property(lambda shard: shard not in shards))


async def test_a_log_that_has_stopped_takes_no_other_out_of_service(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Health is degraded, and says which; 503 is left for a cluster that serves nothing."""
    await desk.post("stream/create", path="/s")
    stop(monkeypatch, *desk.cluster.stream("/s").shards)
    response = await desk.http.get(f"{desk.url}/health")
    assert (response.status_code, response.json()["status"]) == (200, "degraded")
    assert response.json()["reasons"] == response.json()["stopped"]
    assert response.json()["stopped"][0].startswith("/s: x: it is broken")


@pytest.mark.parametrize("which", ["meta", "all"])
async def test_a_cluster_that_serves_nothing_is_stopped(
    desk: Desk, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own log has stopped, or that of every stream."""
    stop(monkeypatch, *([desk.cluster.meta] if which == "meta" else desk.cluster.stream("/default").shards))
    response = await desk.http.get(f"{desk.url}/health")
    assert (response.status_code, response.json()["status"]) == (503, "stopped")


async def test_a_merge_that_fails_is_shown(desk: Desk) -> None:
    """It is tried again, and until then the log grows."""
    desk.cluster.stream("/default").shards[0].merging.error = StorageUnavailable("no room")
    body = (await desk.http.get(f"{desk.url}/health")).json()
    assert body["status"] == "degraded"
    assert "/default: merging failed and is tried again: no room" in body["reasons"]
    (row,) = await desk.get("cluster/info")
    assert (row["health"], row["upkeep"]) == ("degraded", body["reasons"])
    assert 'fairlead_upkeep_failing{stream="/default"} 1.0' in (await desk.http.get(f"{desk.url}/metrics")).text


async def test_a_stream_that_could_not_be_opened_is_shown(desk: Desk) -> None:
    """It has no other row anywhere."""
    desk.cluster.damaged["/hurt"] = Damaged("commit/1", "it is broken")
    body = (await desk.http.get(f"{desk.url}/health")).json()
    assert (body["status"], "/hurt: commit/1" in body["reasons"][0]) == ("degraded", True)
    assert "fairlead_damaged_streams 1.0" in (await desk.http.get(f"{desk.url}/metrics")).text


async def test_metrics_count_streams_topics_commits_and_links(desk: Desk) -> None:
    """In the text format of Prometheus, with labels."""
    await desk.post("stream/create", path="/s")
    await desk.post("stream/create", path="/r")
    await desk.post("stream/topic/create", path="/s", topic="t")
    await desk.post("stream/replica/add", path="/s", replica="/r", paused=True)
    desk.cluster.stream("/s").shards[0].copying.failures = 2
    text = (await desk.http.get(f"{desk.url}/metrics")).text
    assert 'fairlead_upkeep_failures_total{stream="/s"} 2.0' in text
    assert 'fairlead_topics{stream="/s"} 1.0' in text
    assert 'fairlead_log_end_commits{stream="/s"} 1.0' in text
    assert "fairlead_connections 3.0" in text
    assert 'fairlead_clock_jump_ms{stream="/s"} 0.0' in text
    assert 'fairlead_link_position_commits{replica="/mapr/sanfrancisco/r",stream="/s"} 0.0' in text
    assert 'fairlead_link_paused{replica="/mapr/sanfrancisco/r",stream="/s"} 1.0' in text


async def test_metrics_say_what_memory_is_for(desk: Desk) -> None:
    """By owner, and what the process has of the system's; a record that was written is among the newest batches."""

    async def shown() -> dict[str, float]:
        text = (await desk.http.get(f"{desk.url}/metrics")).text
        lines = [line for line in text.splitlines() if "memory_bytes{" in line]
        return {line.split('"')[1]: float(line.split()[1]) for line in lines}

    await desk.post("stream/create", path="/a")
    await desk.post("stream/topic/create", path="/a", topic="t")
    before = await shown()
    await desk.write("/a", "t", b"x" * 10_000)
    after = await shown()
    assert after["recent_batches"] >= before["recent_batches"] + 10_000
    assert after["indexes"] > before["indexes"]
    assert (after["requests"], after["groups"], after["read_ahead"]) == (1234, 56, before["read_ahead"])
    assert after["column_caches"] == 0
    assert after["resident"] > after["heap_used"] > 1_000_000
    assert {"arrow", "heap_free"} < after.keys()


async def test_the_page_has_a_row_for_each_link(desk: Desk) -> None:
    """Its state, what waits and for how long, its error with the command that mends it; refreshed by itself, without a
    script or any other file."""
    await desk.post("stream/create", path="/s")
    await desk.post("stream/topic/create", path="/s", topic="t")
    await desk.write("/s", "t", b"one", b"two")
    for replica in ("/paused", "/<i>"):
        await desk.post("stream/create", path=replica)
        await desk.post("stream/replica/add", path="/s", replica=replica, paused=replica == "/paused")
    await until(lambda: desk.links.failing())
    text = (await desk.http.get(f"{desk.url}/")).text
    failing, paused = (row for row in text.split("<tr>") if "/mapr/sanfrancisco/" in row and "/s<" in row)
    assert "<td>/mapr/sanfrancisco/paused</td><td>paused</td>" in paused
    assert '<td class="number">2</td>' in paused
    assert '<td class="wrong"></td>' in paused
    assert "<td>/mapr/sanfrancisco/&lt;i&gt;</td><td>create schedule</td>" in failing
    command = "fairlead stream upstream add -path /mapr/sanfrancisco/&lt;i&gt; -upstream /mapr/sanfrancisco/s"
    assert f"<code>{command}</code>" in failing
    assert "Replicator: down for " in text
    assert '<meta http-equiv="refresh" content="5">' in text
    assert not [part for part in ("<script", "<link", "<img", "src=", "url(", "@import") if part in text]
    assert "://" not in text.replace(desk.url, "")


async def test_the_page_says_what_a_replica_has_set_aside(desk: Desk) -> None:
    """A partition in conflict is no error of the link, which goes on with the others; nobody would look for it."""
    await desk.post("stream/create", path="/s")
    await desk.post("stream/create", path="/r")
    await desk.post("stream/replica/add", path="/s", replica="/r", paused=True)
    (cluster,) = await desk.get("cluster/info")
    ((path, row),) = desk.links.rows()
    assert "set aside" not in render_page(cluster, [], [(path, row)])
    assert "<td>paused, 2 partitions set aside</td>" in render_page(cluster, [], [(path, {**row, "conflicts": 2})])


async def test_the_page_shows_the_streams_and_escapes_their_names(desk: Desk) -> None:
    """A stream's name is somebody's text, not ours."""
    await desk.post("stream/create", path="/<b>bold")
    response = await desk.http.get(f"{desk.url}/")
    assert "/&lt;b&gt;bold" in response.text
    assert "<b>bold" not in response.text
    assert "sanfrancisco" in response.text


@pytest.mark.parametrize(("route", "asked"), [("topics", {"topics": ["a"]}), ("names", {"shard": 0, "numbers": [1]})])
async def test_a_reader_asks_for_a_bounded_number_of_things(
    desk: Desk, route: str, asked: dict[str, list[str]]
) -> None:
    """A million names stopped everybody else for 22 s."""
    many = {name: each * 100_001 if isinstance(each, list) else each for name, each in asked.items()}
    for body, status in ((asked, 200), (many, 400)):
        response = await desk.http.post(f"{desk.url}/records/{route}", json={"path": "/default", **body})
        assert response.status_code == status
