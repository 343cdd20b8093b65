"""How long something has been so, for people."""

from __future__ import annotations

import pytest

from fairlead.model.ages import age


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7_199, "119 min"),
        (7_200, "2 h"),
        (172_799, "47 h"),
        (864_000, "10 days"),
    ],
)
def test_an_age_has_one_unit(seconds: int, said: str) -> None:
    """The largest of which there are two."""
    assert age(seconds) == said
