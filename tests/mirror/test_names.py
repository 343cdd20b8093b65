"""Which topics are chosen, and where they go."""

from __future__ import annotations

import pytest

from fairlead.mirror.aliases import Aliases
from fairlead.mirror.names import Chosen, destinations


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        (".*", ["ships", "ships2", "weather"]),
        ("ships", ["ships"]),
        ("ships,weather", ["ships", "weather"]),
        ("ships | weather", ["ships", "weather"]),
        ('"ships.*"', ["ships", "ships2"]),
    ],
)
def test_a_whitelist_matches_whole_names(expression: str, chosen: list[str]) -> None:
    """A comma is an alternative, blanks and quotes around are left out, as in Kafka's tools."""
    assert Chosen.of(expression, None).among(["weather", "ships2", "ships"]) == chosen


def test_a_blacklist_leaves_whole_names_out() -> None:
    """The others are all chosen."""
    assert Chosen.of(None, "ships").among(["weather", "ships2", "ships"]) == ["ships2", "weather"]


def test_what_is_chosen_may_have_exceptions() -> None:
    """What is left out all the same, and what is carried in spite of all."""
    topics = ["ships", "ships.replica", "weather", "a.heartbeats"]
    chosen = Chosen("ships.*", excludes=False, unless=".*replica", besides="(?:.*[.])?heartbeats")
    assert chosen.among(topics) == ["a.heartbeats", "ships"]
    assert Chosen("ships", excludes=True, unless="weather").among(topics) == ["a.heartbeats", "ships.replica"]


@pytest.mark.parametrize(
    "topic",
    [
        "__consumer_offsets",
        "__transaction_state",
        "fairlead-mirror.m.internal",
        "fairlead-mirror.producers.internal",
        "mm2-offsets.a.internal",
        "mm2-offset-syncs.b.internal",
        "a.checkpoints.internal",
    ],
)
def test_books_of_clusters_and_mirrors_are_never_mirrored(topic: str) -> None:
    """Whatever the expression says."""
    assert Chosen.of(".*", None).among([topic]) == []
    assert Chosen.of(None, "other").among([topic]) == []


def test_a_prefix_stands_before_the_name() -> None:
    """`test` with `dc1_` is `dc1_test`."""
    named = destinations(["test"], "dc1_", same_cluster=False, taken={})
    assert named.carried == {"test": "dc1_test"}


def test_with_the_aliases_of_mirrormaker_2_names_say_where_topics_came_from() -> None:
    """Where copies are named so; heartbeats are, everywhere."""
    aliases = Aliases("east", "west")
    topics = ["t", "west.t", "heartbeats"]
    named = destinations(topics, "east.", same_cluster=False, taken={}, aliases=aliases)
    assert named.carried == {"t": "east.t", "heartbeats": "east.heartbeats"}
    assert "came from west" in named.left_out["west.t"]
    named = destinations(topics, "", same_cluster=False, taken={}, aliases=aliases)
    assert named.carried == {"t": "t", "west.t": "west.t", "heartbeats": "east.heartbeats"}
    named = destinations(["west.heartbeats"], "", same_cluster=False, taken={}, aliases=aliases)
    assert "came from west" in named.left_out["west.heartbeats"]


def test_a_topic_is_never_its_own_destination() -> None:
    """Within one cluster it needs a prefix; what bears it already is a copy."""
    assert "one cluster" in destinations(["t"], "", same_cluster=True, taken={}).refused["t"]
    named = destinations(["t", "a_t"], "a_", same_cluster=True, taken={})
    assert named.carried == {"t": "a_t"}
    assert named.left_out.keys() == {"a_t"}


def test_two_sources_never_write_one_topic() -> None:
    """The second is refused, and hears which source was first."""
    named = destinations(["t", "u"], "", same_cluster=False, taken={"t": "first.config"})
    assert named.carried == {"u": "u"}
    assert "first.config" in named.refused["t"]


def test_a_name_that_gets_too_long_is_refused() -> None:
    """Kafka allows 249 letters."""
    assert "longer" in destinations(["x" * 249], "a_", same_cluster=False, taken={}).refused["x" * 249]
