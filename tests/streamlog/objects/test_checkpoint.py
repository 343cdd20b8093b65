"""Checkpoints are read as they were written, or are damaged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.rows import joined

from fairlead.model.errors import Damaged
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.objects import checkpoint

TABLES = st.dictionaries(
    st.text(max_size=8),
    st.lists(st.text(max_size=9), max_size=9) | st.lists(st.none() | st.binary(max_size=9), min_size=1, max_size=9),
    max_size=5,
)


@given(TABLES, st.lists(st.integers(-(2**63), 2**63 - 1)), st.dictionaries(st.text(), st.integers()))
def test_tables_are_read_as_they_were_written(tables: dict[str, Any], numbers: list[int], meta: dict[str, Any]) -> None:
    """Lists of texts and bytes, arrays of any kind, a JSON value."""
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "array q": np.array(numbers, np.int64),
        "array b": np.array(numbers, np.int64).astype(np.int8),
    }
    read, read_meta = checkpoint.read(joined(checkpoint.write({**tables, **arrays}, meta)))
    assert read_meta == meta
    for name, table in tables.items():
        assert read[name] == table
    for name, array in arrays.items():
        found = read[name]
        assert isinstance(found, np.ndarray)
        assert found.dtype == array.dtype
        assert found.tolist() == array.tolist()


def test_a_change_of_any_byte_is_found() -> None:
    """The log is then replayed instead."""
    whole = joined(checkpoint.write({"a": np.arange(3), "b": ["x", "yz"], "c": [b"1", None]}, {"m": 1}, name="x"))
    checkpoint.read(whole, "x")
    for place in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[place] ^= 1 << bit
            with pytest.raises(Damaged):
                checkpoint.read(bytes(changed), "x")
    for length in range(len(whole)):
        with pytest.raises(Damaged):
            checkpoint.read(whole[:length], "x")


def test_another_checkpoint_is_damaged() -> None:
    """An older one would give offsets again."""
    whole = joined(checkpoint.write({}, {}, name="x", commit=5))
    assert checkpoint.read(whole, "x", 5) == ({}, {})
    with pytest.raises(Damaged, match="is the checkpoint x of commit 5"):
        checkpoint.read(whole, "x", 6)
    with pytest.raises(Damaged, match="is the checkpoint x of commit 5"):
        checkpoint.read(whole, "y", 5)
    storage = MemoryStorage()
    storage.put_if_absent("x", whole)
    assert checkpoint.commit_of(storage, "x") == 5
    storage.damage("x", lambda data: bytes(len(data)))
    with pytest.raises(Damaged):
        checkpoint.commit_of(storage, "x")


def test_another_version_is_refused_naming_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint is only a shortcut, but its message should help too."""
    monkeypatch.setattr(checkpoint, "CHECKPOINT_VERSION", 3)
    whole = joined(checkpoint.write({}, {}, name="x"))
    monkeypatch.undo()
    with pytest.raises(Damaged, match="checkpoint of version 3; this program reads version 2"):
        checkpoint.read(whole, "x")


def test_what_has_no_fixed_bytes_is_refused() -> None:
    """Objects and tables of two dimensions."""
    with pytest.raises(ValueError, match="cannot be stored"):
        checkpoint.write({"a": np.array([object()])}, {})
    with pytest.raises(ValueError, match="cannot be stored"):
        checkpoint.write({"a": np.zeros((2, 2))}, {})
