"""Where rows go, and that those of a partition keep their order and are all there."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.mirror.bytes.repartition import partition_of
from fairlead.model.errors import BatchTooLarge, InvalidName, InvalidValue
from fairlead.protocol.batch import check_produced, records_of
from fairlead.protocol.records import CODECS
from fairlead.records.writing.encoding import check_types, encoded
from fairlead.records.writing.options import WriteOptions
from fairlead.records.writing.routing import routed

OPTIONS = WriteOptions("/ships", ())
NOW_MS = 1_700_000_000_000

Rows = list[dict[str, Any]]
PAIRS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", PAIRS),
    ]
)


def partitions(names: Sequence[str]) -> Mapping[str, int]:
    """Topic `a` has one, `bb` two, …"""
    return {name: len(name.split(":")[1]) for name in names}


def table(rows: Rows) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def no_limits(names: Collection[str]) -> Mapping[str, int]:
    """As of a cluster that does not say what its topics take."""
    return {}


def sent(rows: pa.RecordBatch, options: WriteOptions = OPTIONS, turn: int = 0) -> dict[tuple[str, int], list[Any]]:
    """The records of each partition, out of batches that a server would take."""
    found: dict[tuple[str, int], list[Any]] = {}
    for batch in encoded(routed(rows, options, partitions, turn), options.codec, NOW_MS, no_limits):
        whole = bytes(batch.head) + bytes(batch.body)
        header = check_produced(whole).header
        assert (header.record_count, header.codec) == (batch.records, options.codec)
        found.setdefault((batch.topic, batch.partition), []).extend(
            (record.key, record.value, record.timestamp, tuple(record.headers)) for record in records_of(whole)
        )
    return found


def test_a_row_goes_where_its_key_says_as_with_java() -> None:
    rows = table([{"topic": "ccc", "key": b"k%d" % n, "value": b"%d" % n} for n in range(50)])
    found = sent(rows)
    for (topic, partition), records in found.items():
        assert topic == "/ships:ccc"
        assert {partition_of(key, 3) for key, _, _, _ in records} == {partition}
        values = [int(value) for _, value, _, _ in records]
        assert values == sorted(values)
    assert sum(map(len, found.values())) == 50
    assert len(found) == 3


def test_rows_without_a_key_take_turns_and_a_partition_that_is_named_wins() -> None:
    rows = table([{"topic": "ccc", "value": b"1"}, {"topic": "ccc", "value": b"2", "partition": 2, "key": b"x"}])
    assert {place[1] for place in sent(rows, turn=1)} == {1, 2}
    assert {place[1] for place in sent(rows, turn=3)} == {0, 2}


def test_what_a_row_lacks_is_null_and_now() -> None:
    rows = table([{"topic": "a", "value": None}, {"topic": "a", "value": b"", "key": b""}])
    assert sent(rows) == {("/ships:a", 0): [(None, None, NOW_MS, ()), (b"", b"", NOW_MS, ())]}


def test_a_row_may_name_its_stream() -> None:
    rows = pa.table({"path": ["/a/b", None], "topic": ["t", "t"], "value": [b"1", b"2"]}).to_batches()[0]
    assert sent(rows).keys() == {("/a/b:t", 0), ("/ships:t", 0)}
    wrong = pa.table({"path": ["/mapr/ny/b"], "topic": ["t"], "value": [b"1"]}).to_batches()[0]
    with pytest.raises(InvalidName, match="column path = '/mapr/ny/b': name the stream by its path in the cluster, /b"):
        sent(wrong)


def test_the_option_topic_counts_whatever_the_column_says() -> None:
    """Also where that is null, or no name of a topic."""
    rows = table([{"topic": topic, "value": b"1"} for topic in ("a", None, "b b")])
    found = sent(rows, WriteOptions("/ships", (), topic="dddd"))
    assert [(place, len(records)) for place, records in found.items()] == [(("/ships:dddd", 0), 3)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"value": b"1"}, "a row has no topic"),
        ({"topic": "bb", "partition": 2, "value": b"1"}, "a row names partition 2 of topic /ships:bb, which has 2"),
        ({"topic": "bb", "partition": -1, "value": b"1"}, "a row names partition -1"),
        ({"topic": "b b", "value": b"1"}, "topic name 'b b'"),
    ],
)
def test_a_row_that_has_no_place_is_refused(row: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidValue, InvalidName), match=message):
        sent(table([{"topic": "a", "value": b"0"}, row]))


def test_a_column_of_another_type_is_named() -> None:
    rows = pa.table({"topic": ["a"], "value": [[1]]}).to_batches()[0]
    with pytest.raises(InvalidValue, match="have a column value of type list<item: int64>, not binary"):
        sent(rows)


PAIR = {"key": "k", "value": b"v"}


@pytest.mark.parametrize(
    ("headers", "names"),
    [
        (pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())])), "name: string, value: binary"),
        (pa.list_(pa.struct([("Key", pa.string()), ("Value", pa.binary())])), "Key: string, Value: binary"),
        (pa.list_(pa.struct([("key", pa.string())])), "key: string"),
        (
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary()), ("x", pa.int32())])),
            "key: string, value: binary, x: int32",
        ),
    ],
)
def test_headers_have_a_key_and_a_value_by_name(headers: pa.DataType, names: str) -> None:
    """Arrow takes fields by their names: what it did not find was null, and what was there was gone."""
    pair = dict.fromkeys((field.name for field in headers.value_type), None)
    rows = pa.table({"topic": ["a"], "value": [b"1"], "headers": pa.array([[pair]], headers)}).to_batches()[0]
    with pytest.raises(InvalidValue, match=f"have a column headers of type .*{names}.*, not list<element: struct<key"):
        sent(rows)
    with pytest.raises(InvalidValue, match="column headers of type"):
        check_types(rows.schema, OPTIONS)


@pytest.mark.parametrize(
    ("headers", "given", "expected"),
    [
        (pa.map_(pa.string(), pa.binary()), [("k", b"v")], (("k", b"v"),)),
        (pa.list_(pa.struct([("value", pa.binary()), ("key", pa.string())])), [PAIR], (("k", b"v"),)),
        (pa.large_list(pa.struct([("key", pa.string()), ("value", pa.binary())])), [PAIR], (("k", b"v"),)),
        (pa.list_(pa.null()), [], ()),
        (pa.null(), None, ()),
    ],
)
def test_headers_may_be_maps_or_nothing(headers: pa.DataType, given: Any, expected: Any) -> None:
    rows = pa.table({"topic": ["a"], "value": [b"1"], "headers": pa.array([given], headers)}).to_batches()[0]
    check_types(rows.schema, OPTIONS)
    assert sent(rows) == {("/ships:a", 0): [(None, b"1", NOW_MS, expected)]}


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("timestamp", pa.array([1_700_000_000_000])),
        ("timestamp", pa.array(["2026-01-01"])),
        ("timestamp", pa.array([0], pa.timestamp("us"))),
        ("partition", pa.array(["0"])),
        ("partition", pa.array([False])),
        ("partition", pa.array([0.0])),
        ("value", pa.array([[1]])),
        ("key", pa.array([7])),
        ("topic", pa.array([[b"a"]])),
    ],
)
def test_a_column_of_another_type_is_refused_before_there_are_rows(name: str, column: pa.Array) -> None:
    """And where there are: a number is not taken for microseconds, nor a text for a number."""
    rows = pa.table({"topic": ["a"], "value": [b"1"]} | {name: column}).to_batches()[0]
    for ask in (lambda: check_types(rows.schema, OPTIONS), lambda: sent(rows)):
        with pytest.raises(InvalidValue, match=f"have a column {name} of type"):
            ask()


def test_numbers_of_partitions_have_any_width_and_columns_may_be_null_throughout() -> None:
    for kind in (pa.int8(), pa.uint16(), pa.int64(), pa.null()):
        rows = pa.table({"topic": ["a"], "value": [b"1"], "partition": pa.array([None], kind)}).to_batches()[0]
        check_types(rows.schema, OPTIONS)
        assert sent(rows) == {("/ships:a", 0): [(None, b"1", NOW_MS, ())]}


TEXTS = st.one_of(st.none(), st.binary(max_size=12))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "topic": st.sampled_from(["a", "bb", "cc", "dddd"]),
            "key": TEXTS,
            "value": TEXTS,
            "timestamp": st.one_of(st.none(), st.integers(0, 2_000_000_000_000).map(lambda ms: ms * 1000)),
            "headers": st.one_of(
                st.none(), st.lists(st.fixed_dictionaries({"key": st.text(max_size=3), "value": TEXTS}), max_size=2)
            ),
        }
    ),
    max_size=40,
)


@given(ROWS, st.integers(0, 4), st.integers(0, 5))
def test_every_row_is_in_one_batch_and_partitions_keep_the_order(rows: Rows, codec: int, turn: int) -> None:
    """Beside a plain model, with every codec."""
    wanted: dict[tuple[str, int], list[Any]] = {}
    for row in rows:
        count = len(row["topic"])
        chosen = partition_of(row["key"], count)
        place = f"/ships:{row['topic']}", turn % count if chosen is None else chosen
        headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
        time = NOW_MS if row["timestamp"] is None else row["timestamp"] // 1000
        wanted.setdefault(place, []).append((row["key"], row["value"], time, headers))
    assert sent(table(rows), WriteOptions("/ships", (), codec=codec), turn) == wanted


def test_batches_are_cut_and_a_record_that_is_larger_goes_alone() -> None:
    rows = table([{"topic": "a", "value": bytes(size)} for size in (400_000, 400_000, 400_000, 2_000_000, 10)])
    made = [batch.records for batch in encoded(routed(rows, OPTIONS, partitions, 0), 0, NOW_MS, no_limits)]
    assert made == [2, 1, 1, 1]


@pytest.mark.parametrize("codec", range(len(CODECS)))
def test_no_batch_is_larger_than_its_topic_takes(codec: int) -> None:
    """Also where a codec makes it no smaller; the records of a topic that takes more go together."""
    noise = random.Random(codec)
    rows = table([{"topic": topic, "value": noise.randbytes(1000)} for topic in ("a", "b") for _ in range(200)])
    routes = routed(rows, OPTIONS, partitions, 0)
    made = list(encoded(routes, codec, NOW_MS, lambda names: {"/ships:a": 20_000, "/ships:b": 1_000_000}))
    assert [batch.records for batch in made if batch.topic == "/ships:b"] == [200]
    small = [batch for batch in made if batch.topic == "/ships:a"]
    assert [batch.records for batch in small] == [19] * 10 + [10]
    assert max(batch.size_bytes for batch in small) <= 20_000


def test_a_record_that_is_larger_than_its_topic_takes_is_refused_by_its_size() -> None:
    """With headers and key it is too large for the one topic; the same one is none too large for another, nor is one
    that its codec makes small enough."""
    rows = table([{"topic": "a", "key": bytes(9_000), "value": bytes(9_000), "headers": [PAIR] * 200}])
    routes = routed(rows, OPTIONS, partitions, 0)
    said = r"a record of 18,875 bytes \(as a batch of its own\) for topic /ships:a, which takes 18,500 \(max.message"
    with pytest.raises(BatchTooLarge, match=said):
        list(encoded(routes, 0, NOW_MS, lambda names: {"/ships:a": 18_500}))
    for codec, limit in ((0, 20_000), (CODECS.index("zstd"), 1_000)):
        (batch,) = encoded(routes, codec, NOW_MS, lambda names, limit=limit: {"/ships:a": limit})  # type: ignore[misc]
        assert batch.records == 1


def test_what_topics_take_is_asked_only_of_those_that_get_much() -> None:
    """And once for all of them: a task may write to ten thousand."""
    asked: list[Collection[str]] = []
    sizes = {"a": 16_000, "bb": 10, "cc": 17_000, "dddd": 20_000}
    rows = table([{"topic": topic, "value": bytes(size)} for topic, size in sizes.items()])

    def limits(names: Collection[str]) -> Mapping[str, int]:
        asked.append(names)
        return {}

    for some in (rows, rows[:2]):
        list(encoded(routed(some, OPTIONS, partitions, 0), 0, NOW_MS, limits))
    assert asked == [{"/ships:cc", "/ships:dddd"}]
