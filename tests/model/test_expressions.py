"""Regular expressions of users."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fairlead.model.expressions import whole_matches


def test_an_expression_matches_whole_names_only() -> None:
    """Each of its branches too; a name with a line break is one name."""
    assert whole_matches("a|b.", ["a", "ab", "bc", "b", "a\n"]).to_pylist() == [True, False, True, False, False]


def test_an_expression_that_would_stand_for_ever_does_not() -> None:
    """Python's own would try 2 to the power of 240 ways."""
    assert whole_matches("(a|a)*b", ["a" * 240]).to_pylist() == [False]


def test_what_is_no_expression_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid):
        whole_matches("(", [""])
