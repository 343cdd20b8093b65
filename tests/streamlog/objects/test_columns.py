"""Rows as arrays: taken, joined and asked for an id."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.support.rows import batch_row, joined

from fairlead.streamlog.objects import format
from fairlead.streamlog.objects.columns import join


def test_taking_rows_shares_their_bytes() -> None:
    """In any order, with neighbours as one piece."""
    rows = [batch_row(n, n, row=n) for n in range(6)]
    columns = format.read_whole(joined(format.encode(rows)))
    taken = columns.take(np.array([4, 1, 2, 3]))
    assert list(taken.rows()) == [rows[4], rows[1], rows[2], rows[3]]
    assert [bytes(piece) for piece in taken.runs()] == [rows[4].batch, b"".join(bytes(r.batch) for r in rows[1:4])]
    assert columns.take(slice(0, 0)).runs() == []


def test_ids_are_found_in_a_column() -> None:
    """Null is no id, not even that of 16 zero bytes."""
    ids = [bytes(16), None, b"a" * 16, b"a" * 15 + b"\0"]
    rows = [batch_row(row=n, origin=id) for n, id in enumerate(ids)]
    columns = format.read_whole(joined(format.encode(rows)))
    assert columns.has_id("origin", bytes(16)).tolist() == [True, False, False, False]
    assert columns.has_id("origin", b"a" * 16).tolist() == [False, False, True, False]
    assert not columns.has_id("via", bytes(16)).any()


def test_joined_columns_have_the_rows_of_all() -> None:
    """And the commits of all."""
    parts = [format.read_whole(joined(format.encode([batch_row(n, commit=n)]))) for n in (3, 5)]
    both = join(parts)
    assert both.topic.tolist() == [3, 5]
    assert (both.first, both.end, both.data) == (3, 6, None)
    assert replace(both, name="x").name == "x"
