"""Where a replica of several shards stands."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import StreamSettings, UpstreamRecord
from fairlead.gateway.apply.agreement import answer_contact, recorded_positions
from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.names import StreamPath
from fairlead.model.settings import Settings
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.values import GrantRun, LinkPosition
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.neighbours import LinkRequest, SlicesPosition, said_to_be_heard

LINK = b"l" * 16
TOPIC = b"t" * 16
EPOCH = b"e" * 16


def stream_at(*shards: dict[tuple[int, int], LinkPosition]) -> Stream:
    """A stream as far as it is asked: the positions of the link, by shard of the replica."""

    def shard(recorded: dict[tuple[int, int], LinkPosition]) -> Any:
        return SimpleNamespace(state=SimpleNamespace(positions=lambda link: recorded if link == LINK else {}))

    return cast(Stream, SimpleNamespace(shards=[shard(recorded) for recorded in shards]))


def test_the_lowest_position_counts_and_the_newest_run() -> None:
    """Each shard records its own with its data: all data below the lowest is here, and no older run may write."""
    high, low = LinkPosition(9, EPOCH, GrantRun(1, 2)), LinkPosition(5, EPOCH, GrantRun(1, 7))
    for order in ((high, low), (low, high)):
        found = list(recorded_positions(stream_at(*({(0, 3): each} for each in order)), LINK))
        assert found == [SlicesPosition(0, 8, 5, EPOCH, GrantRun(1, 7))]


def test_what_one_shard_has_not_recorded_is_no_position() -> None:
    """A crash came between the commits of the shards: the slice is read again from its start."""
    both = LinkPosition(5, EPOCH, GrantRun(1, 1))
    found = list(recorded_positions(stream_at({(0, 3): both, (0, 4): both}, {(0, 4): both}), LINK))
    assert [(each.shard, each.slices) for each in found] == [(0, 16)]


async def test_the_addresses_of_a_source_of_ones_own_are_kept() -> None:
    """Its contact names them, and they may change. What a partner names is not: it could be any address, for us to
    call."""
    with ThreadPoolExecutor(2) as executor:
        cluster = await Cluster.open(
            MemoryStorage(),
            name="ny",
            settings=Settings(reserve_bytes=0, reserve_ratio=0.0),
            clock=SystemClock(),
            randomness=SystemRandomness(),
            executor=executor,
        )
        stream = await cluster.create_stream("/ships", StreamSettings())
        for source, peer in (("sf", "own"), ("rome", "partner")):
            await cluster.links.add_upstream(UpstreamRecord(stream.id, StreamPath("/ships", source), peer=peer))
        for urls in (("http://sf:1",), ("http://sf:2", "http://user:secret@sf:3", "http://sf:4/")):
            for source in ("sf", "rome"):
                place = StreamPlace(source, "/ships", source.encode().ljust(16), urls)
                await answer_contact(cluster, LinkRequest(LINK, place, "/ships"))
        kept = {upstream.path.cluster: upstream.source_urls for upstream in cluster.links.upstreams(stream.id)}
        assert kept == {"sf": ("http://sf:2", "http://sf:4"), "rome": ()}
        end = cluster.meta.announced.end
        await answer_contact(
            cluster, LinkRequest(LINK, StreamPlace("rome", "/ships", b"rome".ljust(16), urls), "/ships")
        )
        await answer_contact(cluster, LinkRequest(LINK, StreamPlace("sf", "/ships", b"sf".ljust(16), urls), "/ships"))
        assert cluster.meta.announced.end == end, "what is known is not written again"
        await cluster.close()


@pytest.mark.parametrize(
    "said", [None, {"x": 1}, {TOPIC.hex(): "1"}, {TOPIC.hex(): True}, {"é" * 32: 1}, [TOPIC.hex()]]
)
def test_what_a_source_says_that_it_has_heard_and_nobody_understands_is_passed_over(said: Any) -> None:
    """It is a stranger's. What is understood counts."""
    place = StreamPlace("sf", "/ships", b"sf".ljust(16))
    assert LinkRequest(LINK, place, "/ships", ext={"heard": said}).heard == {}
    ext = said_to_be_heard({TOPIC: 3})
    assert LinkRequest(LINK, place, "/ships", ext=ext).heard == {TOPIC: 3}
    assert said_to_be_heard({}) == {}
