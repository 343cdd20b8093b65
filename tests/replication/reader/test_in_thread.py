"""How what was read comes out of the thread that reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead.model.errors import Damaged
from fairlead.replication.reader.in_thread import READ_AT_ONCE_BYTES, in_thread


async def test_small_items_come_out_of_the_thread_together_and_large_ones_one_by_one() -> None:
    """All in their order, none of them twice."""
    sizes = [1, 2, READ_AT_ONCE_BYTES, READ_AT_ONCE_BYTES + 1, 3]
    found = [some async for some in in_thread(iter(sizes), lambda size: size)]
    assert found == [sizes[:3], sizes[3:4], sizes[4:]]


async def test_nothing_comes_of_nothing() -> None:
    """Not an empty list either."""
    assert [some async for some in in_thread(iter(list[str]()), len)] == []


async def test_what_was_read_before_an_error_is_given_before_it_is_raised() -> None:
    """A damaged object holds up what lies behind it, not what lies before; and it is never taken for the end."""

    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise Damaged("three", "it is")

    coming = in_thread(items(), lambda _: 1)
    assert await anext(coming) == [1, 2]
    with pytest.raises(Damaged, match="three"):
        await anext(coming)
