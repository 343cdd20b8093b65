"""What a cut keeps is copied into a topic of its own, byte for byte, once, by whoever holds some of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from uuid import UUID, uuid5

import pytest
from tests.streamlog.merging.test_survivors import replayed, tables
from tests.streamlog.ownership.sites import TOPIC, id_of, link_of, noted, sent, taken_over, topic_of, wrote
from tests.streamlog.world import (
    SETTINGS,
    FakeClock,
    SeededRandomness,
    applied,
    committed,
    frame,
    fresh,
    installed,
    made,
    opened,
    produced,
    replicated,
    rows_of,
    values_at,
)

from fairlead.model.errors import AlreadyExists, Missing
from fairlead.model.names import TOPIC_NAME_LENGTH_MAX, check_topic_name, slice_of
from fairlead.streamlog.applying.admission import ANYBODY
from fairlead.streamlog.applying.claims import Claim, claim_of
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.ownership.standing import pending_partitions
from fairlead.streamlog.payloads import StartPayload
from fairlead.streamlog.reading import slices
from fairlead.streamlog.requests import diverged
from fairlead.streamlog.requests.cuts import cut, diverged_incarnation, end_keep
from fairlead.streamlog.requests.diverged import Tail
from fairlead.streamlog.requests.ownership import take_over
from fairlead.streamlog.requests.topics import create_topic, delete_topic, set_partitions
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.state.effects import payload_of
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.writer import ShardLog

A, C = b"a" * 16, b"c" * 16
PLACE = "/mapr/harbour/ships"


def keep_of(topic: Topic, by_epoch: int = 9) -> bytes:
    """The incarnation of the diverged topic of epoch 0, as every holder of the tail computes it."""
    return uuid5(UUID(bytes=topic.incarnation), f"0 {by_epoch}").bytes


def with_tail(log: ShardLog, topic: Topic, offset: int, partition: int = 0) -> None:
    """The partition is cut; what is dead is kept."""
    keep = keep_of(topic)
    committed(log, lambda d: cut(d, topic.number, partition, offset, "takeover", 9, keep))[0].result()


def step(log: ShardLog, name: str | None = None) -> bool:
    """One step of the copier for the first tail; False once it is done."""
    found = list(diverged.tails(log.announced.state))
    if not found:
        return False
    tail = found[0]
    state = log.announced.state
    known = state.by_incarnation(tail.incarnation)
    rows = rows_of_tail(log, tail, 0 if known is None else state.partition(known.number, tail.partition).end)
    if rows:
        owner = diverged.owner_of(tail, rows)
        free = (each for each in diverged.names(tail, "harbour") if state.by_name(each) is None)
        topic = diverged.topic_of(tail, state, name or next(free), owner, PLACE)
        committed(log, lambda d: diverged.append(d, topic, tail, rows))[0].result()
    else:
        committed(log, lambda d: end_keep(d, tail.topic.number, tail.partition, tail.incarnation))[0].result()
    return True


def rows_of_tail(log: ShardLog, tail: Tail, copied_to: int = 0) -> list[Row]:
    """What one part of a look at the log has of a tail; none at its end."""
    part = next(diverged.read(log.announced, [tail], lambda _: copied_to), [])
    return [row for _, rows in part for row in rows]


def merged(log: ShardLog) -> ShardLog:
    """The log opened anew, with all of it in segments."""
    log = opened(log.announced.storage, log.announced.state.stream_id, settings=replace(SETTINGS, merge_commits_min=1))
    while (job := log.upkeep.plan()) is not None:
        installed(log, run_job.run(log.announced.storage, SeededRandomness(log.announced.end), job))
    return log


def copy_of(log: ShardLog, topic: Topic) -> Topic:
    """The diverged topic."""
    found = log.announced.state.by_incarnation(keep_of(topic))
    assert found is not None
    return found


def tailed(stream_id: bytes = A) -> tuple[ShardLog, Topic]:
    """A log whose topic was cut at 1 and kept 1 to 4 in three batches, and goes on."""
    log = fresh(stream_id)
    topic = made(log)
    for values in ((b"0",), (b"1", b"2"), (b"3",), (b"4",)):
        produced(log, topic.number, *values)
    with_tail(log, topic, 1)
    produced(log, topic.number, b"one")
    return log, topic


@pytest.mark.parametrize("merge", [False, True])
def test_a_kept_tail_becomes_a_topic_at_its_own_offsets(merge: bool) -> None:
    """Byte for byte, under the old owner's name; then nothing is kept any more, and a merge drops the dead rows."""
    log, topic = tailed()
    dead = [bytes(row.batch) for row in rows_of(log) if row.kind == Kind.BATCH][1:4]
    if merge:
        log = merged(log)
    while step(log):
        pass
    copy = copy_of(log, topic)
    assert (copy.name, copy.owner, copy.owner_at, copy.epoch) == ("ships.diverged.harbour.0", A, PLACE, 0)
    assert values_at(log, copy.number) == {1: b"1", 2: b"2", 3: b"3", 4: b"4"}
    assert values_at(log, topic.number) == {0: b"0", 1: b"one"}
    assert [bytes(row.batch) for row in rows_of(log) if row.topic == copy.number and row.kind == Kind.BATCH] == dead
    assert log.announced.state.kept_from() == []
    log = merged(log)
    left = [row.base_offset for row in rows_of(log) if row.topic == topic.number and row.kind == Kind.BATCH]
    assert sorted(left) == ([0, 1, 1, 3, 4] if merge else [0, 1]), "what was kept goes with the next merge of its run"
    assert values_at(log, copy.number) == {1: b"1", 2: b"2", 3: b"3", 4: b"4"}
    assert replayed(log) == tables(log)


def test_crash_between_cut_and_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark is in the log, also once it is merged, and the copy goes on where it ended."""
    monkeypatch.setattr(diverged, "COPIED_BYTES", 1)
    log, topic = tailed()
    log = merged(log)
    assert step(log)
    assert values_at(log, copy_of(log, topic).number) == {1: b"1", 2: b"2"}
    log = merged(opened(log.announced.storage, A))
    assert log.announced.state.kept_from()
    steps = 0
    while step(log):
        steps += 1
    assert steps == 3, "two batches and the end of the mark"
    assert values_at(log, copy_of(log, topic).number) == {1: b"1", 2: b"2", 3: b"3", 4: b"4"}


def test_two_holders_make_one_diverged_topic() -> None:
    """The owner has more of the tail than its replica, and both copy it: at the replica it is one topic, whole."""
    owner, replica = fresh(A), fresh(C)
    topic = made(owner)
    for value in (b"0", b"1"):
        produced(owner, topic.number, value)
    replicated(owner, replica)
    produced(owner, topic.number, b"2")
    number = replica.announced.state.number_of("ships")
    assert number is not None
    with_tail(owner, topic, 1)
    with_tail(replica, topic._replace(number=number), 1)
    for log in (owner, replica):
        while step(log):
            pass
    here = copy_of(replica, topic)
    assert (here.owner, here.epoch, here.since, here.version) == (A, 0, (), 1)
    assert values_at(replica, here.number) == {1: b"1"}
    replicated(owner, replica, link=b"m" * 16)
    assert values_at(replica, here.number) == {1: b"1", 2: b"2"}
    assert replica.announced.state.behind(b"m" * 16) == []


def with_part_of_a_tail(site: ShardLog, a: ShardLog, b: ShardLog, partition: int) -> None:
    """The site holds what B has written in one of the topic's partitions, not in the other."""
    sent(a, site)
    part = frame(b, id_of(site), slice_of(TOPIC), 0, link=link_of(b, site))
    rows = [row for row in part.rows if row.kind != Kind.BATCH or row.partition == partition or row.origin == A]
    applied(site, replace(part, rows=rows))


@pytest.mark.parametrize("first", [0, 1])
def test_two_holders_of_other_partitions_make_one_diverged_topic(first: int) -> None:
    """X holds B's tail of one partition and Y that of the other, so each knows of one only where B's epoch began. What
    they make is one topic all the same, also at Z, which hears of both, whoever comes first."""
    a, b, c, x, y, z = (fresh(letter * 16) for letter in (b"a", b"b", b"c", b"x", b"y", b"z"))
    made(a, partitions=2)
    for partition in (0, 1):
        wrote(a, b"0", partition=partition)
    sent(a, b)
    sent(a, c)
    taken_over(b)
    for partition in (0, 1):
        wrote(b, b"late", partition=partition)
    with_part_of_a_tail(x, a, b, 0)
    with_part_of_a_tail(y, a, b, 1)
    while taken_over(c).epoch <= topic_of(b).epoch:
        """The higher one wins."""
    holders = [x, y]
    for site in holders:
        sent(c, site)
        while step(site):
            pass
    for source in holders[first:] + holders[:first]:
        sent(source, z)
    sent(x, y)
    sent(y, x)
    for site in (*holders, opened(z.announced.storage, b"z" * 16)):
        copies = [topic for topic in site.announced.state.topics() if ".diverged." in topic.name]
        assert len(copies) == 1
        assert [start for start, _ in copies[0].since] == [1, 1]
        assert [values_at(site, copies[0].number, each) for each in (0, 1)] == [{1: b"late"}] * 2
    assert [note for site in (x, y) for note in noted(site, z)] == noted(x, y) == noted(y, x) == []


def test_a_holder_adds_where_its_part_began_to_a_copy_that_came_before() -> None:
    """Y's copy comes to X before X has copied its own part: then one topic's row says both."""
    a, b, c, x, y = (fresh(letter * 16) for letter in (b"a", b"b", b"c", b"x", b"y"))
    made(a, partitions=2)
    for partition in (0, 1):
        wrote(a, b"0", partition=partition)
    sent(a, b)
    sent(a, c)
    taken_over(b)
    for partition in (0, 1):
        wrote(b, b"late", partition=partition)
    with_part_of_a_tail(x, a, b, 0)
    with_part_of_a_tail(y, a, b, 1)
    while taken_over(c).epoch <= topic_of(b).epoch:
        """The higher one wins."""
    sent(c, x)
    sent(c, y)
    while step(y):
        pass
    sent(y, x)
    while step(x):
        pass
    sent(x, y)
    for site in (x, y):
        (copy,) = [topic for topic in site.announced.state.topics() if ".diverged." in topic.name]
        assert [start for start, _ in copy.since] == [1, 1]
        assert [values_at(site, copy.number, each) for each in (0, 1)] == [{1: b"late"}] * 2
    assert noted(x, y) == noted(y, x) == []


def test_a_cut_of_a_cut_copies_each_row_once() -> None:
    """What an earlier cut had made dead is not of the later cut's tail, though it stands above it."""
    log, topic = tailed()
    keep = uuid5(UUID(bytes=topic.incarnation), "0 11").bytes
    committed(log, lambda d: cut(d, topic.number, 0, 0, "takeover", 11, keep))[0].result()
    while step(log):
        pass
    later = log.announced.state.by_incarnation(keep)
    assert later is not None
    assert values_at(log, copy_of(log, topic).number) == {1: b"1", 2: b"2", 3: b"3", 4: b"4"}
    assert later.name == "ships.diverged.harbour.0-11"
    assert values_at(log, later.number) == {0: b"0", 1: b"one"}


def test_two_cuts_that_keep_for_the_same_topic_are_copied_as_one_tail() -> None:
    """The second cut of an owner is lower: what it takes comes before the tail of the first, and is not lost."""
    log = fresh(A)
    topic = made(log)
    for value in b"01234":
        produced(log, topic.number, bytes([value]))
    for offset in (3, 1):
        with_tail(log, topic, offset)
    part = [
        (tail.cut.offset, len(rows)) for tail, rows in next(diverged.read(log.announced, list(found_in(log)), to_0))
    ]
    assert part == [(1, 2), (3, 2)]
    for tail, rows in next(diverged.read(log.announced, list(found_in(log)), to_0)):
        absent = diverged.topic_of(tail, log.announced.state, "kept", A, PLACE)
        committed(log, partial(diverged.append, made=absent, tail=tail, rows=rows))[0].result()
    assert values_at(log, copy_of(log, topic).number) == {1: b"1", 2: b"2", 3: b"3", 4: b"4"}


def found_in(log: ShardLog) -> Iterator[Tail]:
    return diverged.tails(log.announced.state)


def to_0(_: Tail) -> int:
    """Nothing is copied yet."""
    return 0


def test_a_look_that_takes_longer_than_the_grace_goes_on_in_what_replaced_its_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All tails are read in one pass, which may take hours; merging does not wait for it."""
    monkeypatch.setattr(diverged, "COPIED_BYTES", 1)
    monkeypatch.setattr(slices, "COMMITS_AT_ONCE", 1)
    clock = FakeClock()
    log = fresh(A, clock=clock, settings=replace(SETTINGS, merge_commits_min=1))
    topic = made(log)
    for value in b"01234":
        produced(log, topic.number, bytes([value]))
    with_tail(log, topic, 0)
    seen: list[int] = []
    for part in diverged.read(log.announced, list(found_in(log)), to_0):
        seen += [row.base_offset for _, rows in part for row in rows if row.base_offset not in seen]
        while (job := log.upkeep.plan()) is not None:
            installed(log, run_job.run(log.announced.storage, SeededRandomness(log.announced.end), job))
        clock.pass_ms(601_000)
        log.upkeep.sweep(log.upkeep.take_due())
    assert seen == [0, 1, 2, 3, 4]


def test_what_is_damaged_of_a_tail_is_said() -> None:
    """It is missing, and no merge has replaced it."""
    log, _ = tailed()
    log.announced.storage.delete(log.announced.manifest.commit_name(2))
    with pytest.raises(Missing):
        list(diverged.read(log.announced, list(found_in(log)), to_0))


def test_what_came_over_a_link_while_it_was_read_is_not_copied_once_more() -> None:
    """The diverged topic of another holder comes between the copier's look at the tail and its commit: a log has each
    offset once."""
    log, topic = tailed()
    (tail,) = diverged.tails(log.announced.state)
    rows = rows_of_tail(log, tail)
    while step(log):
        pass
    copy = copy_of(log, topic)
    ends = committed(log, lambda d: diverged.append(d, copy, tail, rows[:2]))[0].result()
    assert ends == 5
    found = [row.base_offset for row in rows_of(log) if row.topic == copy.number and row.kind == Kind.BATCH]
    assert found == [1, 3, 4]


def test_a_diverged_topic_of_two_partitions_grows_as_they_are_copied() -> None:
    """A holder that has heard of one partition makes the topic; one that knows of more adds them."""
    log = fresh(A)
    topic = made(log, partitions=2)
    for partition in (0, 1):
        produced(log, topic.number, b"x", b"y", partition=partition)
        with_tail(log, topic, 0, partition)
    while step(log):
        pass
    copy = copy_of(log, topic)
    assert copy.partitions == 2
    for partition in (0, 1):
        assert values_at(log, copy.number, partition) == {0: b"x", 1: b"y"}


def test_another_owner_of_the_same_tail_is_a_conflict() -> None:
    """Each holder may say of another partition where it began; who wrote it, all must say alike."""
    log, topic = tailed()
    while step(log):
        pass
    copy = copy_of(log, topic)
    said = payload_of(copy)
    since = replace(said, since=((1, ((0, 0),)),))
    assert claim_of(copy, since, ANYBODY, A) is Claim.NEWER
    assert claim_of(copy, replace(since, owner=C), ANYBODY, A) is Claim.CONFLICT


def test_a_holder_of_another_partition_adds_it_to_the_copy_that_came_before() -> None:
    """The topic had one partition when its owner kept what was cut off there; then it got another one, of which the
    replica keeps a tail for the same topic."""
    owner, replica = fresh(A), fresh(C)
    topic = made(owner)
    for value in (b"0", b"late"):
        produced(owner, topic.number, value)
    with_tail(owner, topic, 1)
    while step(owner):
        pass
    assert copy_of(owner, topic).partitions == 1
    committed(owner, lambda d: set_partitions(d, "ships", 2))
    for value in (b"0", b"late"):
        produced(owner, topic.number, value, partition=1)
    replicated(owner, replica, link=b"m" * 16)
    here = replica.announced.state.by_incarnation(topic.incarnation)
    assert here is not None
    with_tail(replica, here, 1, partition=1)
    while step(replica):
        pass
    copy = copy_of(replica, topic)
    assert copy.partitions == 2
    assert [values_at(replica, copy.number, partition) for partition in (0, 1)] == [{1: b"late"}] * 2


def test_what_is_gone_of_a_tail_is_missing_in_its_copy_too() -> None:
    """The first of it had expired before it was cut, and in its middle was a gap: the copy begins behind the one, and
    says of the other that it is one. It would have holes of which nobody is told."""
    log = fresh(A)
    topic = made(log)
    put_start(log, topic, 2, None)
    produced(log, topic.number, b"2")
    put_start(log, topic, 5, 3)
    produced(log, topic.number, b"5")
    with_tail(log, topic, 0)
    while step(log):
        """All of it."""
    copy = copy_of(log, topic)
    state = log.announced.state.partition(copy.number, 0)
    assert (state.start, state.end) == (2, 6)
    assert values_at(log, copy.number) == {2: b"2", 5: b"5"}
    assert [(gap.start, gap.end) for gap in log.announced.state.gaps_of(copy.number, 0)] == [(3, 5)]


def put_start(log: ShardLog, topic: Topic, offset: int, gap_from: int | None) -> None:
    """Below the offset all is gone, or from `gap_from` to it."""
    payload = StartPayload("ttl", offset, ((0, 0),), gap_from)
    committed(log, lambda d: d.add_control(Kind.START, payload, number=topic.number, partition=0, base_offset=offset))


def test_a_partition_of_which_nothing_was_cut_begins_where_the_tails_epoch_did() -> None:
    """Replicas of the copy would wait for what is below, which is in the topic that was cut."""
    log = fresh(A)
    topic = made(log, partitions=2)
    for partition in (0, 1):
        produced(log, topic.number, b"0", b"1", partition=partition)
    committed(log, lambda d: take_over(d, topic.number, owner_at=PLACE, writer_epoch_id=b"w" * 16))
    for partition in (0, 1):
        produced(log, topic.number, b"2", partition=partition)
    keep = diverged_incarnation(topic.incarnation, log.announced.state.partition(topic.number, 0).epoch, 2**20)
    committed(log, lambda d: cut(d, topic.number, 1, 2, "takeover", 2**20, keep))
    (tail,) = diverged.tails(log.announced.state)
    rows = rows_of_tail(log, tail)
    copy = diverged.topic_of(tail, log.announced.state, "kept", A, PLACE)
    committed(log, lambda d: diverged.append(d, copy, tail, rows))
    committed(log, lambda d: diverged.finish(d, tail))
    known = log.announced.state.by_incarnation(keep)
    assert known is not None
    states = [log.announced.state.partition(known.number, partition) for partition in (0, 1)]
    assert [(state.start, state.end) for state in states] == [(2, 2), (2, 3)]
    assert list(pending_partitions(known, log.announced.state)) == []


def test_a_deleted_diverged_topic_is_not_made_again() -> None:
    """Somebody has said that its records are not wanted."""
    log, topic = tailed()
    assert step(log)
    committed(log, lambda d: delete_topic(d, copy_of(log, topic).name))[0].result()
    tail = next(diverged.tails(log.announced.state))
    rows = rows_of_tail(log, tail)
    absent = diverged.topic_of(tail, log.announced.state, "again", A, PLACE)
    assert committed(log, lambda d: diverged.append(d, absent, tail, rows))[0].result() == 5
    assert log.announced.state.by_name("again") is None


def test_a_name_that_is_taken_is_refused_and_another_one_fits() -> None:
    """Names are legal and differ, however long the topic's is."""
    log, topic = tailed()
    tail = next(diverged.tails(log.announced.state))
    committed(log, lambda d: create_topic(d, "ships.diverged.harbour.0"))[0].result()
    with pytest.raises(AlreadyExists):
        step(log, "ships.diverged.harbour.0")
    assert list(diverged.names(tail, "harbour"))[:2] == ["ships.diverged.harbour.0", "ships.diverged.harbour.0-9"]
    long = [tail._replace(topic=topic._replace(name="n" * (TOPIC_NAME_LENGTH_MAX - 1) + end)) for end in "ab"]
    names = [check_topic_name(name) for each in long for name in diverged.names(each, "harbour")]
    assert len(set(names)) == 6
