"""Names as MirrorMaker 2 has them."""

from __future__ import annotations

import pytest

from fairlead.mirror.aliases import Aliases

EAST = Aliases("east", "west")


@pytest.mark.parametrize(
    ("topic", "cycle"),
    [
        ("orders", False),
        ("west.orders", True),
        ("north.west.orders", True),
        ("north.orders", False),
        ("orders.west", False),
        ("west.", False),  # as Java splits it, that is the name of no other cluster's topic
        ("west", False),
    ],
)
def test_a_topic_that_came_from_the_destination_is_known_by_its_name(topic: str, cycle: bool) -> None:
    """After any number of hops."""
    assert EAST.is_cycle(topic) is cycle


def test_heartbeats_have_the_alias_before_them_under_each_policy() -> None:
    """So that Java's client finds how far away a cluster is, also where names stay."""
    assert EAST.remote("orders", "east.") == "east.orders"
    assert EAST.remote("orders", "") == "orders"
    assert EAST.remote("heartbeats", "") == "east.heartbeats"
    assert EAST.remote("north.heartbeats", "") == "east.north.heartbeats"
    assert not EAST.is_heartbeats("my-heartbeats")


def test_internal_topics_may_have_another_separator() -> None:
    """`replication.policy.internal.topic.separator.enabled`."""
    assert EAST.checkpoints_topic == "east.checkpoints.internal"
    assert EAST.offset_syncs_at_source == "mm2-offset-syncs.west.internal"
    assert EAST.offset_syncs_at_target == "mm2-offset-syncs.east.internal"
    assert Aliases("east", "west", "_", "_").checkpoints_topic == "east_checkpoints_internal"
    assert Aliases("east", "west", "_", "_").is_heartbeats("east_heartbeats")
