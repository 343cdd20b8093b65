"""A function of the user's stands between: what it changes is changed, and all else is as it was."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mirror.bytes.test_rewriter import source_batches, spoiled
from tests.support.mirrored import Said, batch_of, sent, shown, some, sourced

from fairlead.mirror.bytes import handled as module
from fairlead.mirror.bytes.handled import COLUMNS, Changed, handled, handler_named
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.rewriter import Rewriter
from fairlead.mirror.bytes.source import SourceBatch
from fairlead.model.errors import InvalidValue
from fairlead.protocol.batch import read_header
from fairlead.protocol.records import CODECS, Record
from fairlead.records import decode


def changed(handler: Any, *batches: bytes, position: int = 0) -> Changed:
    return handled(sourced(*batches, position=position), handler, "ships", 3)


def records_of(found: Changed) -> list[Said]:
    """What is sent in the end."""
    assert found.refused is None
    return sent(Rewriter(Limits()).take(batches_in(found)).outgoing)


def batches_in(found: Changed) -> list[SourceBatch]:
    """Of all calls."""
    return [batch for call in found.calls for batch in call.batches]


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


@given(source_batches(), st.data(), st.sampled_from([200, 900_000]))
@settings(max_examples=60, deadline=None)
def test_a_function_that_changes_nothing_changes_nothing(
    batches: list[bytes], data: st.DataObject, body_bytes_max: int
) -> None:
    """Keys, values, headers, times and order, nulls as nulls; offsets as the source has them."""
    heads = [read_header(batch) for batch in batches]
    position = data.draw(st.integers(heads[0].base_offset, heads[-1].last_offset))
    expected = shown(*batches, low=position)
    if any(abs(record[0]) > 2**53 for record in expected):  # Arrow's microseconds end there
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BODY_BYTES_MAX", body_bytes_max)
        found = changed(same, *batches, position=position)
    assert records_of(found) == expected
    ends = [(batch.header.base_offset, batch.header.last_offset) for batch in batches_in(found)]
    assert all(before[1] < after[0] for before, after in pairwise(ends))
    if ends:
        assert position <= ends[0][0]
        assert ends[-1][1] <= heads[-1].last_offset


def test_it_is_given_the_columns_of_the_records_source() -> None:
    """With the names of topic and partition."""
    seen: list[pa.RecordBatch] = []

    def look(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch)
        return batch

    changed(look, batch_of(some(3, first=7)))
    (batch,) = seen
    assert tuple(batch.schema.names) == COLUMNS
    assert batch["topic"].to_pylist() == ["ships"] * 3
    assert batch["partition"].to_pylist() == [3] * 3
    assert batch["offset"].to_pylist() == [7, 8, 9]


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_records_are_left_out_and_changed(codec: int) -> None:
    """In the source's codec; each keeps the offset that it had."""

    def even_in_capitals(batch: pa.RecordBatch) -> pa.RecordBatch:
        kept = batch.filter(pc.equal(pc.bit_wise_and(batch["offset"], 1), 0))
        return kept.set_column(1, "value", pc.ascii_upper(kept["value"].cast(pa.string())))

    records = [Record(10 + i, i, b"k%d" % i, b"v%d" % i, (("h", None),)) for i in range(10)]
    found = changed(even_in_capitals, batch_of(records, codec=codec))
    assert records_of(found) == [(i, b"k%d" % i, b"V%d" % i, (("h", None),)) for i in range(0, 10, 2)]
    assert [(batch.header.base_offset, batch.header.last_offset) for batch in batches_in(found)] == [(10, 19)]
    assert batches_in(found)[0].header.codec == codec


def test_what_is_missing_is_null_or_none() -> None:
    """A column of values is enough."""
    found = changed(lambda batch: pa.record_batch({"value": pa.array(["a", None])}), batch_of(some(4)))
    assert records_of(found) == [(1_003, None, b"a", ()), (1_003, None, None, ())]


def test_a_time_that_is_null_is_the_batch_s_newest() -> None:
    """Also if that is one that Arrow does not know."""
    for newest in (77_777, 2**62):
        batch = batch_of(some(2), attributes=0x08, max_timestamp=newest)
        found = changed(with_column("timestamp", pa.array([1_000, None], pa.timestamp("ms", tz="UTC"))), batch)
        assert [record[0] for record in records_of(found)] == [1_000, newest]


def test_all_may_be_left_out() -> None:
    """The position moves all the same."""
    found = changed(lambda batch: batch.slice(0, 0), batch_of(some(4)))
    assert (batches_in(found), found.refused) == ([], None)
    assert changed(same) == ([], None)


def test_lists_of_headers_may_be_null_or_sliced() -> None:
    """As Arrow makes them when it filters."""
    records = [Record(i, 0, None, b"v", ((f"n{i}", b"x" * i), ("m", None))) for i in range(6)]

    def some_null(batch: pa.RecordBatch) -> pa.RecordBatch:
        kept = batch.slice(2, 3)
        headers = kept["headers"].to_pylist()
        headers[1] = None
        at = kept.schema.get_field_index("headers")
        return kept.set_column(at, "headers", pa.array(headers, kept["headers"].type))

    found = records_of(changed(some_null, batch_of(records)))
    assert [record[3] for record in found] == [(("n2", b"xx"), ("m", None)), (), (("n4", b"xxxx"), ("m", None))]
    sliced = records_of(changed(lambda batch: batch.slice(3), batch_of(records)))
    assert sliced == shown(batch_of(records))[3:]


def failing(batch: pa.RecordBatch) -> pa.RecordBatch:
    raise RuntimeError("no such ship\nsecond line")


def with_column(name: str, values: Any) -> Any:
    return lambda batch: batch.set_column(batch.schema.get_field_index(name), name, pa.array(values))


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (failing, "the message handler failed: RuntimeError: no such ship"),
        (lambda batch: None, "gave a NoneType"),
        (lambda batch: pa.Table.from_batches([batch]), "gave a Table"),
        (lambda batch: batch.drop_columns(["value"]), "no column value"),
        (with_column("value", [1.5, 2.5, 3.5]), "column value of type double"),
        (with_column("timestamp", ["x", "y", "z"]), "column timestamp of type string"),
        (with_column("headers", ["x", "y", "z"]), "column headers of type string"),
        (with_column("headers", [[{"name": "x", "value": b"y"}]] * 3), "column headers of type list<item: struct<name"),
        (with_column("topic", ["a", "b", "c"]), "changed the column topic"),
        (with_column("partition", [0, 1, 2]), "changed the column partition"),
        (lambda batch: pa.record_batch({"value": [b"x"] * 4}), "4 records for 3 offsets"),
    ],
    ids=str,
)
def test_what_it_does_wrong_is_said_in_one_line(handler: Any, why: str) -> None:
    """With the offset; what came before is there."""
    found = changed(handler, batch_of(some(3, first=40)))
    assert found.calls == []
    assert found.refused is not None
    assert found.refused[:2] == (40, 42)
    assert why in found.refused.why
    assert found.refused.why.startswith("offset 40: ")
    assert "\n" not in found.refused.why


def test_records_that_it_gives_without_rising_offsets_get_some() -> None:
    """It may sort them."""
    found = changed(lambda batch: batch.take(pa.array([2, 0])), batch_of(some(3, first=40)))
    assert [record[1] for record in records_of(found)] == [b"2", b"0"]
    assert [(batch.header.base_offset, batch.header.last_offset) for batch in batches_in(found)] == [(40, 42)]
    assert [(call.first, call.until, call.mixed) for call in found.calls] == [(40, 42, True)]


def test_a_batch_that_does_not_hold_together_is_refused() -> None:
    """It is not handed over."""
    found = changed(same, spoiled(batch_of(some(3, first=40)), b"\xff" * 50))
    assert found.refused is not None
    assert "offset 40" in found.refused.why


def test_what_was_made_before_such_a_batch_is_not_refused_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it was another call: a position never goes back."""
    monkeypatch.setattr(decode, "GROUP_BYTES", 1)
    found = changed(same, batch_of(some(3, first=40)), spoiled(batch_of(some(3, first=43)), b"\xff" * 50))
    assert [(call.first, call.until, call.mixed) for call in found.calls] == [(40, 42, False)]
    assert found.refused is not None
    assert found.refused[:2] == (43, 45)


def test_a_function_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that can be imported, and a function in it; a Java class is neither."""
    made: Any = ModuleType("handlers_of_ships")
    made.upper, made.text = same, "text"
    monkeypatch.setitem(sys.modules, "handlers_of_ships", made)
    assert handler_named("handlers_of_ships:upper") is same
    for name, why in (
        ("kafka.tools.MirrorMaker$Handler", "write module:function"),
        ("handlers_of_ships", "write module:function"),
        (":upper", "write module:function"),
        ("nobody_has_this:upper", "No module named"),
        ("handlers_of_ships:lower", "has no lower"),
        ("handlers_of_ships:text", "no function"),
    ):
        with pytest.raises(InvalidValue, match=f"message.handler .*{why}"):
            handler_named(name)
