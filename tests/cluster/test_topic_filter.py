"""Which topics a link brings, by the names that regular expressions choose."""

from __future__ import annotations

import time

import pytest

from fairlead.cluster.topic_filter import EXPRESSION_LENGTH_MAX, TopicFilter, base_of, check_expression
from fairlead.model.errors import InvalidValue
from fairlead.model.names import TOPIC_NAME_LENGTH_MAX

NAMES = ["ships", "ships2", "a.ships", "secret", "secret.diverged.ny.4", "ships.pending.ny", "ships.diverged.a.1"]


def chosen(passing: TopicFilter) -> set[str]:
    return {name for name, passes in zip(NAMES, passing.passing(NAMES), strict=True) if passes}


def test_an_expression_matches_the_whole_name() -> None:
    """And what a topic left behind goes where the topic does."""
    assert chosen(TopicFilter()) == set(NAMES)
    assert chosen(TopicFilter("ships")) == {"ships", "ships.pending.ny", "ships.diverged.a.1"}
    assert chosen(TopicFilter("ships.*")) == {"ships", "ships2", "ships.pending.ny", "ships.diverged.a.1"}
    assert chosen(TopicFilter("a|secret")) == {"secret", "secret.diverged.ny.4"}
    assert chosen(TopicFilter(exclude="secret")) == set(NAMES) - {"secret", "secret.diverged.ny.4"}
    assert chosen(TopicFilter("s.*", "ships|.*[.]ny[.]4")) == {"ships2", "secret"}
    assert TopicFilter("ships").passes("ships")
    assert not TopicFilter()
    assert TopicFilter(exclude="x")


def test_what_was_left_behind_is_known_by_its_name() -> None:
    """Of a tail of what a tail left behind, the first topic."""
    assert base_of("a.diverged.ny.1.pending.sf") == "a"
    assert base_of(".diverged.ny") == ".diverged.ny"
    assert base_of("plain") == "plain"


def test_no_name_makes_a_match_take_long() -> None:
    """With backtracking this takes for ever; here it takes by the length of the name."""
    hostile = "a" * (TOPIC_NAME_LENGTH_MAX - 1) + "!"
    before = time.process_time()
    for expression in ("(a+)+", "(a|aa)+", "(a*)*b", "(.*)*(.*)*x"):
        assert not TopicFilter(expression).passes(hostile)
    assert time.process_time() - before < 1


@pytest.mark.parametrize(
    "expression", ["(", "a)|(b", "*", "", r"\Qx", "(?=x)", "a{1001}", "x" * (EXPRESSION_LENGTH_MAX + 1)]
)
def test_what_is_no_expression_is_refused_when_it_is_given(expression: str) -> None:
    """Also one that only makes sense by what would be put around it."""
    with pytest.raises(InvalidValue, match="-topics"):
        check_expression("-topics", expression)


@pytest.mark.parametrize(
    ("before", "after", "narrower"),
    [
        (TopicFilter(), TopicFilter("a"), True),
        (TopicFilter(), TopicFilter(exclude="a"), True),
        (TopicFilter("a"), TopicFilter("a", "b"), True),
        (TopicFilter("a"), TopicFilter("a"), True),
        (TopicFilter("a"), TopicFilter(), False),
        (TopicFilter("a"), TopicFilter("ab?"), False),
        (TopicFilter("a", "b"), TopicFilter("a"), False),
        (TopicFilter("a", "b"), TopicFilter("a", "c"), False),
    ],
)
def test_what_surely_brings_no_more_is_known(before: TopicFilter, after: TopicFilter, *, narrower: bool) -> None:
    """Of two expressions nobody says which one matches more, so another one may bring more."""
    assert after.narrows(before) == narrower
