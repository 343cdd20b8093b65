"""Regular expressions of users."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fairlead.model.expressions import whole_matches


def test_an_expression_matches_whole_names_only() -> None:
    """Each of its branches too; a name with a line break is one name."""
    assert whole_matches("a|b.", ["a", "ab", "bc", "b", "a\n"]) == [True, False, True, False, False]


def test_an_expression_that_would_stand_for_ever_does_not() -> None:
    """Python's own would try 2 to the power of 240 ways."""
    assert whole_matches("(a|a)*b", ["a" * 240]) == [False]


def test_what_is_no_expression_is_refused() -> None:
    """Nor is what is one between brackets alone."""
    for expression in ("(", "a)|(b"):
        with pytest.raises(pa.ArrowInvalid):
            whole_matches(expression, [""])


def test_names_are_texts_of_any_letters() -> None:
    assert whole_matches("..", ["é€", "é", "", "😀x"]) == [True, False, False, True]
    assert whole_matches("a", []) == []
