"""Who is given what to read: division of a backlog, numbers of runs, what ends with a reader."""

from __future__ import annotations

from typing import cast

from fairlead.gateway.links.grants.connected_reader import ConnectedReader
from fairlead.gateway.links.grants.grant_table import SPLIT_BYTES, GrantTable, Held, Runs, groups
from fairlead.gateway.links.grants.outbox import Outbox
from fairlead.streamlog.values import GrantRun

KEY = (b"s" * 16, 0)


class FakeReader:
    """A reader that remembers what was taken from it."""

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self.withdrawn: list[tuple[int, str]] = []

    def withdraw(self, grant: int, key: object, reason: str) -> None:
        self.withdrawn.append((grant, reason))


def held(number: int, reader: FakeReader, link: bytes = b"l", slices: frozenset[int] = frozenset({1})) -> Held:
    """A grant under run (1, number)."""
    return Held(number, link, link, GrantRun(1, number), KEY, slices, cast(ConnectedReader, reader))


def table_of(*readers: FakeReader) -> GrantTable:
    """A table with these readers."""
    table = GrantTable()
    table.readers.extend(cast(list[ConnectedReader], list(readers)))
    return table


def test_a_small_backlog_is_given_to_one_reader() -> None:
    """Sixteen slices with little to read are one grant, however many readers there are."""
    assert groups(dict.fromkeys(range(16), 1000), 4) == [list(range(16))]


def test_a_big_backlog_is_divided_by_bytes() -> None:
    """Every slice is in exactly one group and the groups are about equal."""
    pending = {each: SPLIT_BYTES // (each + 1) for each in range(16)}
    found = groups(pending, 3)
    assert sorted(each for group in found for each in group) == list(range(16))
    sums = sorted(sum(pending[each] for each in group) for group in found)
    assert len(found) == 3
    assert sums[-1] <= sums[0] + SPLIT_BYTES


def test_a_backlog_of_one_slice_is_not_divided() -> None:
    """There are never more groups than slices."""
    assert groups({3: 10 * SPLIT_BYTES}, 4) == [[3]]


def test_runs_grow_also_above_those_a_destination_has_seen() -> None:
    """A restored cluster that counts from a lower writer epoch would be refused for ever."""
    runs = Runs()
    assert runs.next(b"l", 0, 2) == GrantRun(2, 1)
    runs.seen(b"l", 0, GrantRun(1, 99))
    runs.seen(b"l", 0, GrantRun(5, 7))
    assert runs.next(b"l", 0, 2) == GrantRun(5, 8)


def test_each_shard_of_a_link_counts_its_own_runs() -> None:
    """The shards of a stream may be served by processes that know nothing of each other: what one of them gives or
    takes back says nothing of the others'."""
    runs = Runs()
    assert [runs.next(b"l", 0, 7), runs.next(b"l", 1, 3), runs.next(b"m", 0, 7)] == [
        GrantRun(7, 1),
        GrantRun(3, 1),
        GrantRun(7, 1),
    ]
    assert runs.given(b"l", 1, GrantRun(3, 1))
    assert not runs.given(b"l", 1, GrantRun(7, 1))
    assert not runs.given(b"l", 2, GrantRun(1, 1))


def test_free_readers_are_offered_by_load_and_full_ones_not_at_all() -> None:
    """The reader with the fewest grants comes first."""
    busy, idle, full = FakeReader(), FakeReader(), FakeReader(slots=1)
    table = table_of(busy, idle, full)
    table.add(held(1, busy))
    table.add(held(2, full))
    assert list[object](table.free()) == [idle, busy]


def test_a_reader_that_leaves_ends_its_grants() -> None:
    """The links that lost something are named, so that they are given again."""
    one, other = FakeReader(), FakeReader()
    table = table_of(one, other)
    table.add(held(1, one, b"a"))
    table.add(held(2, other, b"b"))
    assert table.leave(cast(ConnectedReader, one)) == {b"a"}
    assert table.of(b"a") == []
    assert len(table.of(b"b")) == 1


def test_withdrawing_tells_the_readers_and_answers_the_largest_run() -> None:
    """Sinks are told to drop up to that run."""
    reader = FakeReader()
    table = table_of(reader)
    table.add(held(1, reader))
    table.add(held(2, reader))
    assert table.withdraw(table.of(b"l"), "paused") == {(b"l", 0): GrantRun(1, 2)}
    assert reader.withdrawn == [(1, "paused"), (2, "paused")]
    assert table.withdraw(table.of(b"l"), "paused") == {}


def test_who_has_spoken_of_a_run_is_remembered_as_long_as_it_stands() -> None:
    """Runs are given for as long as a sink lives: of those that are over nothing is kept."""
    one, other = Outbox(), Outbox()
    table = table_of(reader := FakeReader())
    runs = [GrantRun(1, number) for number in range(1, 4)]
    for run in runs:
        table.add(held(run.counter, reader))
        assert table.is_sink_of(one, b"l", 0, run)
        assert not table.is_sink_of(other, b"l", 0, run)
    table.drop(1)
    assert table.is_sink_of(other, b"l", 0, runs[0])
    assert table.is_sink_of(one, b"l", 0, runs[0]), "nobody's any more"
    table.sink_left(one)
    assert table.is_sink_of(other, b"l", 0, runs[1])


def test_runs_grow_across_restarts() -> None:
    """Also where no destination has seen those of the last server, whose frames may still come: each start is another
    writer epoch of the shard."""
    first, second = Runs(), Runs()
    for _ in range(5):
        last = first.next(b"l", 0, 1)
    assert last < second.next(b"l", 0, 2)
