"""Plain rows are decided of columns: what becomes of any frame is what the rows one by one would have made of it.

Each seed is a life of a source, in frames of which some have something changed in them. A replica gets each as columns,
its twin row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest
from tests.properties.hostile import Hostile
from tests.properties.test_hostile_frames import reopened, state_of
from tests.streamlog.world import Names, batch_of, committed, fresh, made, rows_of, sendable
from tests.support.batches import produce
from tests.support.kafka_rows import NUMBER, SOURCE, batch_of_epoch, frame_of, row_of, topic_row
from tests.support.rows import control_row

from fairlead.model.errors import CorruptBatch
from fairlead.protocol.batch import TRANSACTIONAL
from fairlead.streamlog import payloads
from fairlead.streamlog.applying import rows as applying_rows
from fairlead.streamlog.applying.admission import ANYBODY, Admission
from fairlead.streamlog.applying.frame import apply_frame
from fairlead.streamlog.applying.plain import PlainRows
from fairlead.streamlog.frames.codec import ROWS_AS_COLUMNS_MIN, decode_columns, decode_frame, encode_frame
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.objects.columns import RowsOf
from fairlead.streamlog.payloads import BEGINS_HERE, StartPayload
from fairlead.streamlog.requests.topics import set_partitions
from fairlead.streamlog.rows import HOLE, REWRITTEN, Kind, Row
from fairlead.streamlog.values import GrantRun
from fairlead.streamlog.writing.writer import ShardLog

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
TOPICS = 5
SEEDS = 24


class Twins:
    """Two replicas that get the same: one as columns, with commits that are prepared, one row by row."""

    def __init__(self, admission: Admission = ANYBODY) -> None:
        self.admission = admission
        self.as_columns, self.by_row = fresh(B), fresh(B)

    def get(self, data: bytes) -> None:
        """Both apply the frame, and are the same before and after a restart."""
        try:
            frame, columns = decode_columns(data)
        except CorruptBatch:
            return
        found = self._apply(self.as_columns, replace(frame, rows=RowsOf(columns)))
        expected = self._apply(self.by_row, replace(frame, rows=list(columns.rows())))
        assert found == expected
        assert state_of(self.as_columns) == state_of(self.by_row)

    def _apply(self, log: ShardLog, frame: Frame) -> list[Any]:
        """What came of it: rows, the answer, and what is found in memory afterwards."""
        found: list[Any] = []
        while not found:
            sealed = log.seal([lambda draft: apply_frame(draft, frame, self.admission)])
            log.write(sealed)
            if log is self.as_columns and sealed.rows:
                log.prepare(sealed)
            announced = log.announce(sealed)
            found += [(answer.value, str(answer.error), type(answer.error)) for answer in sealed.answers]
            log.reader.load_stored(sealed.missing)
        keys = sorted({(row.topic, row.partition) for row in sealed.rows})
        tail = [list(log.announced.tail.entries(*key)) for key in keys]
        recent = [list(log.announced.recent.find(*key, 0)[0]) for key in keys]
        return [found, sealed.rows, announced, list(log.announced.tail.commits)[-1:], tail, recent]

    def reopen(self) -> None:
        """Both start again."""
        self.as_columns, self.by_row = reopened(self.as_columns), reopened(self.by_row)


def life(random: Random) -> ShardLog:
    """Some commits of a source, of several topics with partitions, some of idempotent producers."""
    source = fresh(A)
    topics = [made(source, f"t{each}", random.choice((1, 1, 3))) for each in range(TOPICS)]
    sequences: dict[Any, int] = {}
    for _ in range(8):
        requests = []
        for _ in range(random.randrange(1, 60)):
            topic = random.choice(topics)
            key = topic.number, random.randrange(topic.partitions), random.choice((-1, -1, 7, 8))
            values = [b"v"] * random.choice((1, 1, 2, 5))
            first, epoch = (sequences.get(key, 0), 0) if key[2] >= 0 else (-1, -1)
            sequences[key] = first + len(values)
            batch = batch_of(*values, producer_id=key[2], epoch=epoch, sequence=first)
            requests.append(partial(produce, number=key[0], partition=key[1], batch=batch))
        committed(source, *requests)
        if random.random() < 0.2:
            committed(source, partial(set_partitions, name=random.choice(topics).name, partitions=4))
    return source


def frames_of(source: ShardLog, random: Random) -> Iterator[Frame]:
    """Its rows in frames of whole commits, now and then one of before again."""
    names, rows = Names(source), [row for row in rows_of(source) if sendable(row, B)]
    commits = sorted({row.commit for row in rows})
    first, sent = 0, list[Frame]()
    while commits:
        count = random.randrange(1, 5)
        taken, commits = commits[:count], commits[count:]
        wanted = [row for row in rows if first <= row.commit <= taken[-1]]
        sent.append(
            Frame(b"l" * 16, GrantRun(1, 1), A, 0, 0xFFFF, first, taken[-1] + 1, b"e" * 16, names.of(wanted), wanted)
        )
        yield sent[-1]
        first = taken[-1] + 1
        if random.random() < 0.3:
            yield random.choice(sent)


@pytest.fixture
def appended(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many rows each look for plain ones appended; looks come after every second row."""
    counts: list[int] = []
    append = PlainRows.append

    def counted(rows: PlainRows, first: int, end: int) -> int:
        counts.append(append(rows, first, end))
        return counts[-1]

    monkeypatch.setattr(PlainRows, "append", counted)
    monkeypatch.setattr(applying_rows, "ALONE_MIN", 2)
    return iter([counts])


@pytest.mark.parametrize("part", range(3))
def test_a_frame_becomes_what_its_rows_one_by_one_would(part: int, appended: Iterator[list[int]]) -> None:
    """Whatever is changed in it: numbers of rows, batches, their order."""
    for seed in range(part, SEEDS, 3):
        random = Random(seed)
        hostile, twins = Hostile(random), Twins(ANYBODY if seed % 4 else random.choice((_of(A), _of(C))))
        try:
            for frame in frames_of(life(random), random):
                if random.random() < 0.3 and frame.from_commit:
                    changed = hostile.changed(frame)
                    twins.get(encode_frame(changed))
                twins.get(encode_frame(frame))
            twins.reopen()
        except BaseException as error:
            error.add_note(f"seed {seed}; changed: {hostile.said}")
            raise
    counts = next(appended)
    assert sum(counts) > 20 * SEEDS
    assert sum(count > 3 for count in counts) > SEEDS


def kafka_frames(topic: Row, epochs: list[int], random: Random, first: int = 0) -> Iterator[Frame]:
    """A frame that makes the topic, and one for each epoch, of batches of both partitions."""
    yield frame_of([topic])
    ends, newest = {0: (first, -1), 1: (first, -1)}, random.choice((True, False))
    for place, epoch in enumerate(epochs):
        rows = []
        for partition in (0, 1, 1, 0, 1, 0, 0):
            end, _ = after = ends[partition]
            values = [b"v"] * random.randrange(1, 4)
            batch = batch_of_epoch(epoch, end, *values, producer_id=random.choice((-1, 5)) if newest else -1)
            rows.append(row_of(batch, after=after, partition=partition))
            ends[partition] = end + len(values), epoch
        yield frame_of(rows, first=place + 1)


def test_epochs_of_a_kafka_clusters_partitions(appended: Iterator[list[int]]) -> None:
    """They may be above the topic's there, and nowhere else."""
    for seed in range(8):
        random = Random(seed)
        twins = Twins()
        for frame in kafka_frames(
            topic_row(partitions=2, owner_at=("kafka://old", "")[seed % 2]), [0, 3, 3, 7, 7], random
        ):
            twins.get(encode_frame(frame))
        twins.reopen()
    assert sum(next(appended)) > 20


def at(offset: int, epoch: int = 0, *, attributes: int = 0, producer_id: int = -1) -> Row:
    """A row of one record behind epoch 0 of partition 0, which ends at 4."""
    batch = batch_of_epoch(epoch, offset, b"v", attributes=attributes, producer_id=producer_id)
    return row_of(batch, after=(4, 0))


CHANGED = {
    "nothing": at(4),
    "behind a gap of the source": at(6),
    "behind what is not here": at(6)._replace(previous_end=5),
    "below the end": at(3),
    "at offsets below 0": at(4)._replace(base_offset=-1),
    "behind another epoch": at(4)._replace(previous_epoch=1),
    "of a later epoch": at(4, 1),
    "of no epoch": at(4)._replace(epoch=-1),
    "harmed": at(4)._replace(batch=bytes(at(4).batch)[:-1] + b"?"),
    "cut": at(4)._replace(batch=at(4).batch[:40]),
    "of more records": at(4)._replace(records=2),
    "of another time": at(4)._replace(max_timestamp=1),
    "of another CRC": at(4)._replace(crc=1),
    "at other offsets": at(4)._replace(last_offset=5),
    "rewritten": at(4)._replace(bits=REWRITTEN),
    "behind a hole": at(4)._replace(bits=HOLE),
    "of a transaction": at(4, attributes=TRANSACTIONAL, producer_id=5),
    "of a producer": at(4, producer_id=5),
    "claimed": at(4, producer_id=-7),
    "of no partition": at(4)._replace(partition=2),
    "of a negative partition": at(4)._replace(partition=-1),
    "of an unknown kind": at(4)._replace(kind=200),
    "of a control kind": at(4)._replace(kind=int(Kind.START)),
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_row_that_is_not_plain_stops_at_itself(what: str, appended: Iterator[list[int]]) -> None:
    """The rows before it are appended, and those behind it as its own effect lets them."""
    twins = Twins()
    held = [row_of(batch_of_epoch(0, 0, b"v", b"v", b"v", b"v"), after=(0, -1), partition=each) for each in (0, 1)]
    twins.get(encode_frame(frame_of([topic_row(partitions=2), *held])))
    others = [row_of(batch_of_epoch(0, offset, b"v"), after=(offset, 0), partition=1) for offset in range(4, 16)]
    twins.get(encode_frame(frame_of([*others[:6], CHANGED[what], *others[6:]], first=1)))
    twins.get(encode_frame(frame_of([at(4)], first=2)))
    twins.reopen()
    assert max(next(appended)) in ({13} if what in PLAIN else {4, 6})


PLAIN = {"nothing", "behind a gap of the source", "of a producer"}


def test_a_row_that_began_elsewhere_than_its_partner_speaks_for_is_not_plain(appended: Iterator[list[int]]) -> None:
    """Nor are those beside it, until it is set aside."""
    twins = Twins(_of(SOURCE))
    twins.get(encode_frame(frame_of([topic_row(owner_at=""), first()])))
    rows = [row_of(batch_of_epoch(0, offset, b"v"), after=(offset, 0)) for offset in range(1, 7)]
    twins.get(encode_frame(frame_of([*rows[:3], rows[3]._replace(origin=C), *rows[4:]], first=1)))
    twins.reopen()
    assert {row.origin for row in rows_of(twins.as_columns) if row.kind == Kind.BATCH} == {SOURCE}
    assert not any(next(appended))


def first(offset: int = 0, epoch: int = 0, **header: Any) -> Row:
    """A row of one record, the first one of partition 0."""
    return row_of(batch_of_epoch(epoch, offset, b"v", **header), after=(0, -1))


FIRST = {
    "nothing": first(),
    "behind a gap of the source": first(2),
    "of a producer": first(producer_id=5),
    "behind what is not here": first(2)._replace(previous_end=1),
    "behind another epoch": first()._replace(previous_epoch=0),
    "of no partition": first()._replace(partition=2),
    "behind an epoch of its own": first(2)._replace(previous_epoch=0, previous_end=0),
    "of a later epoch": first(epoch=1),
    "harmed": first()._replace(batch=bytes(first().batch)[:-1] + b"?"),
    "rewritten": first()._replace(bits=REWRITTEN),
    "behind a hole": first()._replace(bits=HOLE),
    "of a transaction": first(attributes=TRANSACTIONAL, producer_id=5),
}


@pytest.mark.parametrize("what", FIRST)
def test_the_first_batch_of_a_partition(what: str, appended: Iterator[list[int]]) -> None:
    """It begins an epoch there, in which those behind it go on, in the same look and in later ones."""
    twins, row = Twins(), FIRST[what]
    twins.get(encode_frame(frame_of([topic_row(partitions=2, owner_at="")])))
    end, other = row.last_offset + 1, first()._replace(partition=1)
    later = [row_of(batch_of_epoch(0, end + each, b"v"), after=(end + each, 0)) for each in range(4)]
    twins.get(encode_frame(frame_of([other, row, *later[:2]], first=1)))
    twins.get(encode_frame(frame_of(later[2:], first=2)))
    twins.reopen()
    assert next(appended)[2] == (4 if what in PLAIN else 1)


@pytest.mark.parametrize(
    "second", [row_of(batch_of_epoch(0, 1, b"v"), after=(1, -1)), first(1), at(4), at(1, 1), first()]
)
def test_what_does_not_follow_the_first_batch_of_its_partition(second: Row) -> None:
    """It comes in the look in which that batch begins the epoch."""
    twins = Twins()
    twins.get(encode_frame(frame_of([topic_row(owner_at="")])))
    twins.get(encode_frame(frame_of([first(), second], first=1)))
    twins.reopen()


@pytest.mark.parametrize("epochs", [(3, 3), (3, 5), (5, 3)])
def test_the_first_epochs_of_a_kafka_clusters_partition(epochs: tuple[int, int]) -> None:
    """A row of another epoch than the first one's begins another, or is of a history that is not here."""
    twins = Twins()
    twins.get(encode_frame(frame_of([topic_row()])))
    second = row_of(batch_of_epoch(epochs[1], 1, b"v"), after=(1, epochs[0]))
    twins.get(encode_frame(frame_of([first(epoch=epochs[0]), second], first=1)))
    twins.reopen()
    held = [row.epoch for row in rows_of(twins.by_row) if row.kind == Kind.BATCH]
    assert held == ([3, *epochs[1:]] if epochs[0] == 3 else [5]), "epochs never go back"


@pytest.mark.parametrize("previous_epoch", [-1, 0])
def test_the_first_batch_of_a_partition_that_begins_later(previous_epoch: int, appended: Iterator[list[int]]) -> None:
    """A START row has said so, and has told no epoch."""
    twins = Twins()
    start = payloads.encode(StartPayload(BEGINS_HERE, 7, ()))
    begins = control_row(Kind.START, start, topic=NUMBER, partition=0, base_offset=7)
    twins.get(encode_frame(frame_of([topic_row(owner_at=""), begins])))
    rows = [
        row_of(batch_of_epoch(0, 7 + each, b"v"), after=(7 + each, 0 if each else previous_epoch)) for each in (0, 1)
    ]
    twins.get(encode_frame(frame_of(rows, first=1)))
    twins.reopen()
    assert max(next(appended)) == (2 if previous_epoch < 0 else 0)


TOGETHER = pytest.mark.parametrize("together", [False, True])
"""Whether rows of a topic come in the frame that makes it, or changes it."""


def frames_with(topic: Row, rows: list[Row], *, epoch: int, together: bool) -> list[Frame]:
    """The topic's row and these, in one frame or in two; the row behind the topic's is of another partition."""
    begun = [topic, first(epoch=epoch)._replace(partition=2)]
    return [frame_of([*begun, *rows])] if together else [frame_of(begun), frame_of(rows, first=1)]


@TOGETHER
@pytest.mark.usefixtures("appended")
@pytest.mark.parametrize("rows", [[first()._replace(partition=1)], [first(epoch=1), first(2, 1)]])
def test_first_batches_where_an_owners_epoch_begins_later(rows: list[Row], together: bool) -> None:
    """It begins at offset 2 of partition 0; what is below that is another owner's, and so is what is of epoch 0."""
    topic, twins = topic_row(partitions=3, owner_at=""), Twins()
    payload = replace(payloads.decode_topic(topic.batch), epoch=1, version=1, since=((2, ()),))
    for frame in frames_with(topic._replace(batch=payloads.encode(payload)), rows, epoch=1, together=together):
        twins.get(encode_frame(frame))
    twins.reopen()


@TOGETHER
def test_a_first_epoch_above_that_of_a_kafka_clusters_topic(together: bool, appended: Iterator[list[int]]) -> None:
    """A row of it is plain: the topic has no epoch of its own."""
    twins = Twins()
    for frame in frames_with(topic_row(partitions=3), [first(epoch=3)], epoch=0, together=together):
        twins.get(encode_frame(frame))
    twins.reopen()
    assert max(next(appended)) == 1


@pytest.mark.parametrize("epoch", [1, 4, 5])
@pytest.mark.parametrize("held", [0, 4])
def test_a_kafka_clusters_partition_that_went_on_otherwise(held: int, epoch: int) -> None:
    """From offset `held` on it has records of epoch 5 or later ones, and the topic's own epoch, 1, tells nothing."""
    twins, topic = Twins(), topic_row()
    before = [row_of(batch_of_epoch(1, each, b"v"), after=(each, 1 if each else -1)) for each in range(held)]
    history = ((1, 0), (5, held)) if held else ((5, 0),)
    payload = replace(payloads.decode_topic(topic.batch), epoch=1, version=1, since=((held, history),))
    twins.get(encode_frame(frame_of([topic, *before, topic._replace(batch=payloads.encode(payload))])))
    twins.get(
        encode_frame(frame_of([row_of(batch_of_epoch(epoch, held, b"v"), after=(held, 1 if held else -1))], first=1))
    )
    twins.reopen()


def test_a_topic_that_was_set_aside_in_the_same_frame(appended: Iterator[list[int]]) -> None:
    """Rows of its other partition would continue that."""
    twins = Twins()
    held = [row_of(batch_of_epoch(0, 0, b"v", b"v", b"v", b"v"), after=(0, -1), partition=each) for each in (0, 1)]
    twins.get(encode_frame(frame_of([topic_row(partitions=2), *held])))
    others = [row_of(batch_of_epoch(0, offset, b"v"), after=(offset, 0), partition=1) for offset in range(4, 8)]
    twins.get(encode_frame(frame_of([CHANGED["behind another epoch"], at(4), *others], first=1)))
    twins.reopen()
    assert max(next(appended)) <= 1


def test_a_topic_for_whose_owner_the_source_does_not_speak() -> None:
    """Whoever wrote the rows."""
    twins = Twins()
    twins.get(encode_frame(frame_of([topic_row(owner_at=""), first()])))
    twins.admission = _of(C)
    later = [row_of(batch_of_epoch(0, 1 + each, b"v"), after=(1 + each, 0))._replace(origin=C) for each in range(3)]
    twins.get(encode_frame(frame_of(later, first=1)))
    twins.reopen()


def test_rows_of_no_plain_form_are_passed_before_it_is_looked_for_plain_ones(appended: Iterator[list[int]]) -> None:
    """A stream's first frame begins with the rows of its topics, as many as there are."""
    source, twins = fresh(A), Twins()
    topics = [made(source, f"t{each}") for each in range(20)]
    committed(source, *(partial(produce, number=each.number, partition=0, batch=batch_of(b"v")) for each in topics))
    rows = rows_of(source)
    frame = Frame(b"l" * 16, GrantRun(1, 1), A, 0, 0xFFFF, 0, 99, b"e" * 16, Names(source).of(rows), rows)
    twins.get(encode_frame(replace(frame, rows=[row for row in rows if sendable(row, B)])))
    assert [count for count in next(appended) if count] == [8, 12]


def changed_owner(twins: Twins) -> None:
    """Both partitions of the topic end at 2 in epoch 0, where an owner's epoch 1 begins."""
    topic = topic_row(partitions=2, owner_at="")
    first = [row_of(batch_of_epoch(0, 0, b"v", b"v"), after=(0, -1), partition=each) for each in (0, 1)]
    since = ((2, ((0, 0),)), (2, ((0, 0),)))
    payload = replace(payloads.decode_topic(topic.batch), epoch=1, version=1, since=since)
    twins.get(encode_frame(frame_of([topic, *first, topic._replace(batch=payloads.encode(payload))])))


def test_a_topic_whose_owner_has_changed(appended: Iterator[list[int]]) -> None:
    """Its epoch begins at other offsets in each partition."""
    twins = Twins()
    changed_owner(twins)
    for place, end in enumerate((2, 3, 4)):
        batch = batch_of_epoch(1, end, b"v")
        rows = [row_of(batch, after=(end, 0 if end == 2 else 1), partition=each) for each in (0, 1)]
        twins.get(encode_frame(frame_of(rows, first=1 + place)))
    assert sum(next(appended)) == 5


def test_a_row_says_another_epoch_than_the_partition_has() -> None:
    """That before it is the topic's own, so the source has records that are not here."""
    twins = Twins()
    changed_owner(twins)
    twins.get(encode_frame(frame_of([row_of(batch_of_epoch(1, 2, b"v"), after=(2, 1))], first=1)))


def test_a_long_frame_is_read_as_columns_and_a_short_one_is_not() -> None:
    """Few rows are decided sooner one by one."""
    batch = row_of(batch_of_epoch(0, 0, b"v"), after=(0, -1))
    short = frame_of([batch] * (ROWS_AS_COLUMNS_MIN - 1))
    assert isinstance(decode_frame(encode_frame(short)).rows, list)
    long = decode_frame(encode_frame(frame_of([batch] * ROWS_AS_COLUMNS_MIN))).rows
    assert isinstance(long, RowsOf)
    assert list(long) == [batch._replace(row=each) for each in range(ROWS_AS_COLUMNS_MIN)]
    assert list(long[5:7]) == [long[5], long[-ROWS_AS_COLUMNS_MIN + 6]]


def _of(*origins: bytes) -> Admission:
    return Admission(frozenset(origins), topics_max=100, partitions_max=100, notes_max=1000)
