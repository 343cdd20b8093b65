"""Which partitions of a log are repaired, and in which order."""

from __future__ import annotations

from typing import cast

import pytest
from tests.gateway.rig import REPLICA, SHIPS, Site

from fairlead.cluster.stream import Stream
from fairlead.cluster.values import LinkRecord
from fairlead.gateway.links.grants.connected_reader import ConnectedReader
from fairlead.gateway.links.grants.grant_table import GrantTable
from fairlead.gateway.links.grants.granting import REPAIRED_AT_ONCE, Granting
from fairlead.gateway.links.running.attention import Attention
from fairlead.gateway.links.running.running_link import RunningLink
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.gateway.links.running.timing import Backoff, Timing
from fairlead.model.clock import SystemRandomness
from fairlead.wire.control import RepairGrant
from fairlead.wire.neighbours import BehindPartition

BEHIND = 2 * REPAIRED_AT_ONCE + REPAIRED_AT_ONCE // 2


class FakeReader:
    """A reader that remembers what it was to repair."""

    slots = 100

    def __init__(self) -> None:
        self.repaired: list[list[int]] = []

    def repair(self, grant: RepairGrant) -> None:
        self.repaired.append([each.partition for each in grant.partitions])


@pytest.fixture
async def stream(sf: Site) -> Stream:
    """It has a topic of many partitions."""
    stream = sf.cluster.stream(SHIPS)
    await stream.create_topic("a", BEHIND)
    return stream


def link_of(sf: Site, stream: Stream) -> RunningLink:
    """A link whose destination is never asked."""
    record = LinkRecord(b"l" * 16, stream.id, SHIPS, REPLICA, ("http://b",), paused=False, created_at=1)
    return RunningLink(record, Attention(Backoff(Timing(), SystemRandomness())), sf.manager.new_gateways())


async def test_what_cannot_be_repaired_keeps_nothing_else_from_its_repair(sf: Site, stream: Stream) -> None:
    """The same are behind at each contact, and more than are repaired at once: each has its turn, and the first ones
    again after the last. A grant that there was no reader for was nobody's turn."""
    reader, table = FakeReader(), GrantTable()
    granting, link = Granting(sf.cluster, "", RunningLinks(), table), link_of(sf, stream)
    _, topic = stream.topic("a")
    behind = [BehindPartition("a", topic.incarnation, each, 0, "gap") for each in range(BEHIND)]
    assert not granting.repair(link, stream, behind)
    table.readers.append(cast(ConnectedReader, reader))
    for _ in range(3):
        assert granting.repair(link, stream, behind)
    assert [len(each) for each in reader.repaired] == [REPAIRED_AT_ONCE] * 3
    assert set().union(*reader.repaired) == set(range(BEHIND))
    assert reader.repaired[0] == [*range(REPAIRED_AT_ONCE)]
    assert reader.repaired[2][-1] == 3 * REPAIRED_AT_ONCE - BEHIND - 1
