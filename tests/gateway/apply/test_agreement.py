"""Where a replica of several shards stands."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from fairlead.cluster.stream import Stream
from fairlead.gateway.apply.agreement import recorded_positions
from fairlead.streamlog.values import GrantRun, LinkPosition
from fairlead.wire.messages import SlicesPosition

LINK = b"l" * 16
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
