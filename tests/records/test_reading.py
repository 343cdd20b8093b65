"""Planning and reading for Spark on objects of a log, with a server that is a table in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.rows import said_of

from fairlead.model.errors import CorruptBatch, InvalidValue, UnknownTopic
from fairlead.protocol.batch import build_batch
from fairlead.records import reading
from fairlead.records.client import RecordsClient, ShardPlan, StreamPlan, TopicPlan
from fairlead.records.options import Options
from fairlead.records.planner import Planner, Pushed
from fairlead.records.task import RecordsLost, Task
from fairlead.storage.local import LocalStorage
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.objects.format import encode
from fairlead.streamlog.payloads import StartPayload
from fairlead.streamlog.payloads import encode as encode_payload
from fairlead.streamlog.rows import NO_COMMIT, Kind, Row
from fairlead.streamlog.values import DeadFrom, EpochRange, LogObject

STREAM = b"s" * 16
EPOCH = b"e" * 16
NAMES = {0: "anna", 1: "bella", 16: "clara"}


def row(commit: int, number: int, base: int, count: int = 2, partition: int = 0, size: int = 10) -> Row:
    """A row of `count` records whose values say where they belong."""
    values = [f"{NAMES[number]}/{partition}/{base + i}".encode().ljust(size) for i in range(count)]
    batch = build_batch([(None, value) for value in values], base_offset=base, timestamp_ms=1000 + commit)
    end = base + count
    fixed = (base, end - 1, 0, base, 0, STREAM, None, NO_COMMIT)
    return Row(1, number, partition, *fixed, 1, 1000 + commit, *said_of(batch), commit, 0, batch)


def start_row(
    commit: int,
    number: int,
    offset: int,
    reason: str,
    *,
    held: int = 0,
    gap_from: int | None = None,
    deleted_to: int = 0,
) -> Row:
    """A `start` row before which the partition `held` records up to that offset here."""
    payload = encode_payload(StartPayload(reason, offset, ((0, 0),), gap_from, deleted_to))
    fixed = (offset, offset - 1, 0, held, 0, STREAM, None, NO_COMMIT)
    return Row(Kind.START, number, 0, *fixed, 1, 0, 0, 0, 0, commit, 1, payload)


@dataclass
class FakeServer(RecordsClient):
    """The log of one shard: its objects, topics and epochs; `moves` take effect one at each question for objects."""

    storage: LocalStorage
    found: list[LogObject] = field(default_factory=list)
    epochs: tuple[EpochRange, ...] = (EpochRange(1, EPOCH, 0, None),)
    stream: str = STREAM.hex()
    names_asked: list[list[int]] = field(default_factory=list)
    deleted: set[int] = field(default_factory=set)
    """Topics."""
    deleted_to: dict[int, int] = field(default_factory=dict)
    """Offsets below which the records of partition 0 were deleted, by topic."""
    cuts: tuple[DeadFrom, ...] = ()
    servers: tuple[str, ...] = ()
    path: str = "/ships"

    def put(self, name: str, rows: Sequence[Row], first: int | None = None, end: int | None = None) -> None:
        first = rows[0].commit if first is None else first
        end = rows[-1].commit + 1 if end is None else end
        self.storage.put_if_absent(name, encode(rows, name=name, object_kind="segment", first=first, end=end))
        self.found.append(LogObject(name, first, end, True))

    def merge(self, name: str, rows: Sequence[Row]) -> None:
        """Replace all objects by one segment, whose rows are sorted as merging sorts them."""
        for old in self.found:
            self.storage.delete(old.name)
        self.found = []
        ordered = sorted(rows, key=lambda r: (slice_of_number(r.topic), r.topic, r.partition, r.base_offset))
        self.put(name, ordered, min(r.commit for r in rows), max(r.commit for r in rows) + 1)

    def end(self) -> int:
        return max((found.end for found in self.found), default=0)

    def ends(self) -> StreamPlan:
        shard = ShardPlan(0, 0, self.end(), self.epochs, ())
        return StreamPlan(self.stream, "/ships", str(self.storage.root), (shard,))

    def objects(self, first: Mapping[int, int], end: Mapping[int, int]) -> StreamPlan:
        until = end.get(0, self.end())
        chosen = tuple(o for o in self.found if o.end > first.get(0, 0) and o.first < until)
        plan = self.ends()
        deleted = tuple((number, 0, offset) for number, offset in self.deleted_to.items())
        cuts = tuple(cut for cut in self.cuts if cut[3] >= first.get(0, 0))
        return replace(plan, shards=(replace(plan.shards[0], objects=chosen, deleted=deleted, cuts=cuts),))

    def topics(self, names: Sequence[str]) -> list[TopicPlan]:
        known = {name: number for number, name in NAMES.items()}
        return [TopicPlan(name, 0, known[name], ((2, 8), (0, 0))) for name in names if name in known]

    def names(self, shard: int, numbers: Iterable[int]) -> dict[int, str]:
        asked = list(numbers)
        self.names_asked.append(asked)
        return {number: NAMES[number] for number in asked if number not in self.deleted}

    def offsets_at(self, topics: Sequence[str] | None, time_ms: int) -> dict[tuple[int, int], list[int]]:
        return {(0, 0): [3]}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    """Three commits of three topics, in objects of their own; tasks ask this server too."""
    made = FakeServer(storage=LocalStorage(tmp_path))
    monkeypatch.setattr(reading, "RecordsClient", lambda servers, path: made)
    made.put("streams/a", [row(0, 0, 2), row(0, 1, 0)])
    made.put("streams/b", [row(1, 0, 4), row(1, 16, 0, partition=1)])
    made.put("streams/c", [row(2, 0, 6), row(2, 1, 2)])
    return made


def options(**changes: Any) -> Options:
    return replace(Options("/ships", ("http://127.0.0.1:1",)), **changes)


def values(tasks: Iterable[Task]) -> list[str]:
    """The values that the tasks read, task after task."""
    batches = [batch for task in tasks for batch in reading.read(task)]
    return [value.decode().strip() for batch in batches for value in batch.column("value").to_pylist()]


ANNA = [f"anna/0/{offset}" for offset in range(2, 8)]
BELLA = [f"bella/0/{offset}" for offset in range(4)]
CLARA = ["clara/1/0", "clara/1/1"]


def test_a_batch_reads_everything_once(server: FakeServer) -> None:
    """All records of all topics, with all columns."""
    tasks = Planner(options(), server).batch()
    assert sorted(values(tasks)) == sorted(ANNA + BELLA + CLARA)
    table = pa.Table.from_batches(reading.read(tasks[0]))
    assert set(table["topic"].to_pylist()) == {"anna", "bella", "clara"}
    assert set(table["origin"].to_pylist()) == {STREAM.hex()}
    assert server.names_asked.count([0, 1]) <= 2


def test_chosen_topics(server: FakeServer) -> None:
    """By name, by pattern and by filters from Spark, which narrow both."""
    assert sorted(values(Planner(options(topics=("bella",)), server).batch())) == BELLA
    assert sorted(values(Planner(options(topic_pattern="[ab].*a"), server).batch())) == ANNA + BELLA
    pushed = Pushed(frozenset({"anna", "clara"}))
    assert sorted(values(Planner(options(topic_pattern="[ab].*"), server).batch(pushed))) == ANNA
    assert sorted(values(Planner(options(), server).batch(Pushed(partitions=frozenset({1}))))) == CLARA
    with pytest.raises(UnknownTopic, match="topic dora does not exist in /ships"):
        Planner(options(topics=("dora",)), server).batch()


def test_a_deleted_topic_is_not_read(server: FakeServer) -> None:
    """Its rows may be there still, but its number has no name."""
    server.deleted.add(0)
    assert sorted(values(Planner(options(), server).batch())) == BELLA + CLARA


def test_offsets_cut_inside_batches(server: FakeServer) -> None:
    """startingOffsets and endingOffsets by partition, startingTimestamp by the server's look-up."""
    cut = options(starting={"anna": {0: 3}}, ending={"anna": {0: 7}})
    assert values(Planner(cut, server).batch()) == ANNA[1:5]
    later = Planner(options(topics=("anna",), starting_time_ms=5), server)
    assert values(later.batch()) == ANNA[1:]
    early = Planner(options(starting={"anna": {0: 1}}), server)
    for ask in (early.batch, early.initial):
        with pytest.raises(RecordsLost, match="offset 1 was asked for, 2 is the first"):
            ask()
    lenient = Planner(options(starting={"anna": {0: 1}}, fail_on_data_loss=False), server)
    assert sorted(values(lenient.tasks(lenient.initial(), lenient.latest(lenient.initial())))) == ANNA + BELLA + CLARA
    with pytest.raises(InvalidValue, match="ends at 8, before 9"):
        Planner(options(ending={"anna": {0: 9}}), server).batch()
    with pytest.raises(InvalidValue, match="option startingOffsets: topic anna, partition 0 ends at 8, before 9"):
        Planner(options(starting={"anna": {0: 9}}), server).initial()
    with pytest.raises(InvalidValue, match="partition 5 does not exist"):
        Planner(options(starting={"anna": {5: 9}}), server).batch()
    with pytest.raises(InvalidValue, match="nothing behind it for a batch"):
        Planner(options(starting="latest"), server).batch()


def test_tasks_share_partitions_and_keep_their_order(server: FakeServer) -> None:
    """However many tasks there are, each partition is read by one of them, in order."""
    for tasks in range(1, 9):
        shares = [values([task]) for task in Planner(options(min_partitions=tasks), server).batch()]
        assert len(shares) == tasks
        assert sorted(value for share in shares for value in share) == sorted(ANNA + BELLA + CLARA)
        assert [name for name in next(s for s in shares if ANNA[0] in s) if name in ANNA] == ANNA


def test_a_stream_goes_on_at_its_position_after_merging(server: FakeServer) -> None:
    """What was read before the merge is not read again from the segment that stands for it."""
    planner = Planner(options(starting="earliest", max_offsets_per_trigger=4), server)
    start = planner.initial()
    first = planner.latest(start, 4)
    assert first.commits() == {0: 1}
    seen = values(planner.tasks(start, first))
    server.merge("streams/m", [row(0, 0, 2), row(0, 1, 0), row(1, 0, 4), row(1, 16, 0, partition=1), row(2, 0, 6)])
    end = planner.latest(first)
    seen += values(planner.tasks(first, end))
    assert sorted(seen) == sorted(ANNA + BELLA[:2] + CLARA)
    assert planner.latest(end) == end
    assert planner.tasks(end, end) == []


def test_a_limit_counts_records_and_never_stands_still(server: FakeServer) -> None:
    """At most so many records a trigger, in whole commits, but one commit at least; merged or not."""
    rows = [row(0, 0, 2), row(0, 1, 0), row(1, 0, 4), row(1, 16, 0, partition=1), row(2, 0, 6), row(2, 1, 2)]
    for merged in (False, True):
        if merged:
            server.merge("streams/m", rows)
        planner = Planner(options(starting="earliest"), server)
        start = planner.initial()
        assert [planner.latest(start, most).commits()[0] for most in (1, 4, 7, 8, 11, 12, 99)] == [1, 1, 1, 2, 2, 3, 3]
        assert planner.latest(start, 99, {0: 2}).commits() == {0: 2}


@dataclass
class TwoShards(FakeServer):
    """A stream of two shards that have the same commits."""

    def ends(self) -> StreamPlan:
        plan = super().ends()
        return replace(plan, shards=(plan.shards[0], replace(plan.shards[0], shard=1)))

    def objects(self, first: Mapping[int, int], end: Mapping[int, int]) -> StreamPlan:
        parts = [super(TwoShards, self).objects({0: first[each]}, {0: end[each]}).shards[0] for each in (0, 1)]
        return replace(self.ends(), shards=(parts[0], replace(parts[1], shard=1)))


def test_a_limit_is_shared_by_all_shards(tmp_path: Path) -> None:
    """In proportion to what waits in each, so that none waits until another one has nothing left."""
    server = TwoShards(storage=LocalStorage(tmp_path))
    for commit in range(100):
        server.put(f"streams/{commit:03}", [row(commit, 0, commit, count=1)])
    planner = Planner(options(starting="earliest"), server)
    start = planner.initial()
    assert planner.latest(start, 20).commits() == {0: 10, 1: 10}
    assert planner.latest(start, 1).commits() == {0: 1, 1: 1}, "each at least a commit"
    uneven = replace(start, shards={0: start.shards[0], 1: replace(start.shards[1], commit=95)})
    assert planner.latest(uneven, 20).commits() == {0: 16, 1: 99}
    assert planner.latest(uneven, 105).commits() == {0: 100, 1: 100}


def test_latest_begins_at_the_end(server: FakeServer) -> None:
    """A stream without startingOffsets reads only what comes next, as Spark's Kafka source does."""
    planner = Planner(options(), server)
    start = planner.initial()
    server.put("streams/d", [row(3, 1, 4)])
    assert values(planner.tasks(start, planner.latest(start))) == ["bella/0/4", "bella/0/5"]
    assert planner.latest(start, until={0: 1}) == start, "a position never goes back"


def test_the_first_batch_runs_again_with_what_it_had(server: FakeServer) -> None:
    """Spark asks for the query's beginning once more each time that it runs the first batch, and keeps only its end."""
    planner = Planner(options(), server)
    start = planner.initial()
    server.put("streams/d", [row(3, 1, 4)])
    end = planner.latest(start)
    server.put("streams/e", [row(4, 1, 6)])
    later = Planner(options(), server).initial()
    assert later.commits() == {0: 5}
    assert values(planner.tasks(later, end)) == ["bella/0/4", "bella/0/5"]


def test_where_the_first_batch_began_does_not_move(server: FakeServer) -> None:
    """Neither the offsets that were asked for, nor from which commit on records that expire are lost."""
    planner = Planner(options(topics=("anna",), starting={"anna": {0: 5}}), server)
    end = planner.latest(planner.initial())
    later = Planner(options(topics=("anna",), starting={"anna": {0: 7}}), server).initial()
    assert values(planner.tasks(later, end)) == ANNA[3:]

    planner = Planner(options(starting="earliest"), server)
    start = planner.initial()
    server.put("streams/d", [start_row(5, 1, 6, "ttl", held=6), row(6, 1, 6)])
    end = planner.latest(start)
    with pytest.raises(RecordsLost, match="records below offset 6 are gone"):
        values(planner.tasks(planner.initial(), end))


def test_no_starting_offsets_means_all_records(server: FakeServer) -> None:
    """`{}` names no partition, and those that are not named begin at their first record."""
    planner = Planner(options(starting={}), server)
    start = planner.initial()
    assert sorted(values(planner.tasks(start, planner.latest(start)))) == ANNA + BELLA + CLARA


def test_a_query_does_not_go_on_with_other_topics(server: FakeServer) -> None:
    """Its position does not say what was read of them. The order in which they are named is nothing."""
    position = Planner(options(topics=("anna", "bella")), server).initial()
    for other in (options(topics=("anna",)), options(topic_pattern="a.*"), options()):
        planner = Planner(other, server)
        with pytest.raises(InvalidValue, match="options topics, topicPattern: the query began with others"):
            planner.latest(position)
        with pytest.raises(InvalidValue, match="begin with a new checkpoint"):
            planner.tasks(position, position)
        old = replace(position, topics="")
        assert planner.latest(old).topics == other.chosen, "positions of older versions do not say it"
    assert Planner(options(topics=("bella", "anna")), server).latest(position) == position


def test_offsets_of_a_stream_stay_in_its_position(server: FakeServer) -> None:
    """startingOffsets hold for a later trigger too, where the first one did not come so far."""
    planner = Planner(options(starting={"anna": {0: 5}}, max_offsets_per_trigger=1), server)
    start = planner.initial()
    middle = planner.latest(start, 1)
    read = values(planner.tasks(start, middle)) + values(planner.tasks(middle, planner.latest(middle)))
    assert [value for value in read if value in ANNA] == ANNA[3:]


def test_objects_merged_away_while_a_task_reads(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task asks again and reads on behind what it had: nothing twice, nothing left out."""
    tasks = Planner(options(), server).batch()
    rows = [row(0, 0, 2), row(0, 1, 0), row(1, 0, 4), row(1, 16, 0, partition=1), row(2, 0, 6), row(2, 1, 2)]
    monkeypatch.setattr(reading, "GROUP_BYTES", 1)
    batches = reading.read(tasks[0])
    seen = next(batches).column("value").to_pylist()
    server.merge("streams/m", rows)
    seen += [value for batch in batches for value in batch.column("value").to_pylist()]
    assert sorted(value.decode().strip() for value in seen) == sorted(ANNA + BELLA + CLARA)


def test_expired_before_it_was_read(server: FakeServer) -> None:
    """A `start` row behind the position tells of a loss: an error, or with failOnDataLoss=false a line in the log."""
    planner = Planner(options(starting="earliest"), server)
    start = planner.initial()
    server.put("streams/d", [start_row(5, 1, 6, "ttl", held=6), row(6, 1, 6)])
    end = planner.latest(start)
    with pytest.raises(RecordsLost, match=r"topic bella, partition 0: records below offset 6 are gone .* \(ttl\)"):
        values(planner.tasks(start, end))
    lenient = Planner(options(starting="earliest", fail_on_data_loss=False), server)
    assert "bella/0/6" in values(lenient.tasks(start, end))
    again = Planner(options(starting="earliest"), server)
    begin = again.initial()
    found = values(again.tasks(begin, again.latest(begin)))
    assert "bella/0/6" in found, "what had expired before a query began is no loss"


@pytest.mark.parametrize(
    "begins",
    [
        pytest.param(start_row(5, 1, 6, "link"), id="it holds all that there is"),
        pytest.param(start_row(5, 1, 6, "ttl"), id="what was before expired at the source"),
        pytest.param(start_row(5, 1, 6, "from-now"), id="it leaves the past out"),
        pytest.param(start_row(5, 1, 6, "from-now", held=4), id="the past that it leaves out goes on"),
        pytest.param(start_row(5, 1, 6, "ttl", held=4, deleted_to=6), id="the owner has deleted what was before"),
    ],
)
def test_a_replica_that_begins_is_no_loss(server: FakeServer, begins: Row) -> None:
    """The `start` row of a link says where the copy begins: nothing that was here is gone."""
    planner = Planner(options(), server)
    start = planner.initial()
    server.put("streams/d", [begins, row(6, 1, 6)])
    assert values(planner.tasks(start, planner.latest(start))) == ["bella/0/6", "bella/0/7"]


@pytest.mark.parametrize("held", [0, 4])
def test_a_gap_in_a_replica_is_a_loss(server: FakeServer, held: int) -> None:
    """What a link was to bring expired before it came, also where the partition held nothing yet."""
    planner = Planner(options(), server)
    start = planner.initial()
    server.put("streams/d", [start_row(5, 1, 6, "ttl", held=held, gap_from=held), row(6, 1, 6)])
    with pytest.raises(RecordsLost, match="records below offset 6 are gone"):
        values(planner.tasks(start, planner.latest(start)))


@pytest.mark.parametrize("offset", [3, 7])
def test_what_was_deleted_is_not_read(server: FakeServer, offset: int) -> None:
    """Its batches may be there until they are merged, and the one that holds the offset stays. Offsets that were asked
    for count where they are higher."""
    server.deleted_to = {0: 5}
    assert sorted(values(Planner(options(), server).batch())) == sorted(ANNA[3:] + BELLA + CLARA)
    asked = options(topics=("anna",), starting={"anna": {0: offset}})
    assert values(Planner(asked, server).batch()) == ANNA[max(offset, 5) - 2 :]


def test_a_query_goes_on_over_a_deletion(server: FakeServer) -> None:
    """It is no loss: who deleted the records meant it, and the query may have read them before."""
    planner = Planner(options(starting="earliest"), server)
    start = planner.initial()
    server.deleted_to = {0: 7}
    server.put("streams/d", [start_row(5, 0, 6, "deleted-records"), row(6, 0, 8)])
    found = values(planner.tasks(start, planner.latest(start)))
    assert sorted(found) == sorted(["anna/0/7", "anna/0/8", "anna/0/9", *BELLA, *CLARA])


def test_a_restored_log_is_noticed(server: FakeServer) -> None:
    """Another writer epoch in the place of the one that was read: rolled back, whatever failOnDataLoss says."""
    planner = Planner(options(fail_on_data_loss=False), server)
    start = planner.initial()
    server.epochs = (EpochRange(1, EPOCH, 0, 2), EpochRange(2, b"f" * 16, 2, None))
    for ask in (lambda: planner.latest(start), lambda: planner.tasks(start, start)):
        with pytest.raises(RecordsLost, match=r"was rolled back.*begin with a new checkpoint"):
            ask()
    server.epochs = (EpochRange(1, EPOCH, 0, 3), EpochRange(2, b"f" * 16, 3, None))
    assert planner.latest(start).commits() == start.commits(), "a restarted server is no other log"


def test_another_stream_at_the_path(server: FakeServer) -> None:
    """A stream that was deleted and made again is not the one of the checkpoint."""
    planner = Planner(options(), server)
    start = planner.initial()
    server.stream = "ff" * 16
    with pytest.raises(InvalidValue, match="another stream that was at /ships before"):
        planner.latest(start)


def test_large_objects_are_read_in_pieces(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not wanted is not read, and no piece grows without limit."""
    monkeypatch.setattr(reading, "PIECE_BYTES", 200_000)
    rows = [row(3, 0, 8, 2, size=90_000), row(4, 1, 4, 2, size=90_000), row(5, 16, 0, 2, size=90_000)]
    server.merge("streams/m", rows)
    assert values(Planner(options(topics=("anna", "clara")), server).batch()) == [
        *("anna/0/8", "anna/0/9", "clara/0/0", "clara/0/1")
    ]


def test_a_damaged_batch_is_named(server: FakeServer) -> None:
    """Topic, partition and offset are in the error."""
    bad = row(3, 1, 4)
    server.put("streams/d", [bad._replace(batch=bytes(bad.batch[:-1]) + b"?")])
    with pytest.raises(CorruptBatch, match="topic bella, partition 0, offset 4"):
        values(Planner(options(), server).batch())


def test_spark_batch_read_over_a_cut(server: FakeServer) -> None:
    """Dead records are not read, and those that stand in their place are; also if the log is cut and merged while a
    task reads what was alive when the batch was planned."""
    dead, alive = row(2, 0, 6), row(4, 0, 4, count=1)
    (task,) = Planner(options(topics=("anna",)), server).batch()
    task = replace(task, choice=replace(task.choice, end=9))
    server.put("streams/d", [alive])
    server.cuts = ((0, 0, 4, 3, 0),)
    expected = ["anna/0/2", "anna/0/3", "anna/0/4"]
    assert values(Planner(options(topics=("anna",)), server).batch()) == expected

    reader = reading.read(task)
    server.storage.delete("streams/c")
    taken = [row(0, 0, 2), row(1, 0, 4)]
    server.found = []
    server.put("streams/merged", [*taken, dead, alive], 0, 5)
    found = [value.decode().strip() for batch in reader for value in batch.column("value").to_pylist()]
    assert found == ["anna/0/2", "anna/0/3", "anna/0/4", "anna/0/5", "anna/0/4"], "the cut came after these were read"


def test_a_cut_limits_no_micro_batch(server: FakeServer) -> None:
    """A limit counts records that will be read."""
    planner = Planner(options(starting="earliest", topics=("anna",)), server)
    server.cuts = ((0, 0, 4, 3, 0),)
    start = planner.initial()
    assert planner.latest(start, max_records=2).commits() == {0: 3}


def test_what_is_written_anew_below_the_starting_offset_is_read(server: FakeServer) -> None:
    """Where the partition was cut since the query began; also by the micro-batches that begin behind the cut."""
    planner = Planner(options(topics=("anna",), starting={"anna": {0: 8}}), server)
    start = planner.initial()
    server.cuts = ((0, 0, 4, 3, 0),)
    server.put("streams/d", [row(4, 0, 4, count=1)])
    middle = planner.latest(start)
    assert values(planner.tasks(start, middle)) == ["anna/0/4"]
    server.put("streams/e", [row(5, 0, 5, count=1)])
    assert values(planner.tasks(middle, planner.latest(middle, 10))) == ["anna/0/5"]


def test_a_cut_of_before_the_query_does_not_move_where_it_starts(server: FakeServer) -> None:
    """The offset was given of the log as it is."""
    server.cuts = ((0, 0, 4, 3, 0),)
    server.put("streams/d", [row(4, 0, 4), row(5, 0, 6)])
    planner = Planner(options(topics=("anna",), starting={"anna": {0: 6}}), server)
    start = planner.initial()
    assert values(planner.tasks(start, planner.latest(start))) == ["anna/0/6", "anna/0/7"]
