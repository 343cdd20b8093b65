"""Conflicts in `stream topic info`: on which link, and why, at both sides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.gateway.rig import REPLICA, SHIPS, SOURCE, Site, Worker, set_up
from tests.support import http_calls
from tests.support.waiting import until

from fairlead.client.catalog import BY_PATH
from fairlead.streamlog.requests.ownership import take_over


@pytest.fixture
async def both(sf: Site, ny: Site) -> AsyncIterator[None]:
    """Both clusters replicate to each other, and somebody carries."""
    async with AsyncExitStack() as carrying:
        for site in (sf, ny):
            await carrying.enter_async_context(Worker(site))
        await set_up(sf, ny)
        await sf.links.add_upstream(SHIPS, REPLICA)
        await ny.links.add_replica(SHIPS, SOURCE, urls=sf.urls)
        await until(lambda: all(link.state.ready for site in (sf, ny) for link in site.manager.running))
        yield


async def conflicts(site: Site, topic: str) -> list[Any]:
    """What `stream topic info` says, for each partition."""
    async with http_calls.client() as http:
        answer = await http.get(f"{site.url}/rest/stream/topic/info", params={"path": SHIPS, "topic": topic})
    return [row["conflicts"] for row in answer.json()["data"]]


async def _noted(site: Site) -> None:
    await until(lambda: any(shard.state.all_notes() for shard in site.cluster.stream(SHIPS).shards))


@pytest.mark.usefixtures("both")
async def test_another_topic_of_the_name_waits(sf: Site, ny: Site) -> None:
    """Where it waits, and at the owner of the one that does."""
    await ny.links.pause(SHIPS, SOURCE)
    await ny.write(SHIPS, "box", b"theirs")
    await ny.write(SHIPS, "other", b"1")
    await sf.write(SHIPS, "box", b"ours")
    await _noted(ny)
    waits = f"from {SOURCE}: another topic of this name waits, owned by {SOURCE}"
    assert await conflicts(ny, "box") == [[waits]]
    assert await conflicts(ny, "other") == [[]]
    await sf.links.refresh(SHIPS)
    assert await conflicts(sf, "box") == [[f"at {REPLICA}: another topic holds the name box"]]


@pytest.mark.usefixtures("both")
async def test_a_topic_is_set_aside_here(sf: Site, ny: Site) -> None:
    """The upstream names another owner, which it may not."""
    await ny.write(SHIPS, "box", b"1")
    await until(lambda: "box" in sf.ends(SHIPS))
    await ny.links.edit_upstream(SHIPS, SOURCE, ownership=False)
    stream = sf.cluster.stream(SHIPS)
    shard = stream.shard_for("box")
    await shard.submit(
        lambda draft: take_over(draft, "box", owner_at=stream.global_path, writer_epoch_id=shard.epoch.id)
    )
    await _noted(ny)
    ((text,),) = await conflicts(ny, "box")
    assert text.startswith(f"from {SOURCE}: ownership-claim: the upstream gives the topic another owner")


def test_the_table_has_the_column() -> None:
    """People see it without -json."""
    assert "conflicts" in BY_PATH["/rest/stream/topic/info"].columns
