"""Topics that a Kafka cluster owns: their partitions have epochs of their own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.streamlog.world import applied, committed, fresh, made, opened, produced, rows_of, values_at
from tests.support.kafka_rows import INCARNATION, LINK, NUMBER, SOURCE, batch_of_epoch, frame_of, row_of, topic_row
from tests.support.rows import control_row

from fairlead.protocol.batch import CONTROL, TRANSACTIONAL, is_abort, read_header
from fairlead.streamlog import payloads
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.applying.frame import apply_frame
from fairlead.streamlog.frames.codec import decode_frame, encode_frame
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.fsck import check_all
from fairlead.streamlog.ownership.lost import end_of_epoch
from fairlead.streamlog.payloads import DELETED_RECORDS, StartPayload, TopicPayload
from fairlead.streamlog.requests.cuts import diverged_incarnation
from fairlead.streamlog.requests.ownership import take_over
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.state.effects import KAFKA_EPOCHS_MAX
from fairlead.streamlog.values import Cut, Topic
from fairlead.streamlog.writing.writer import ShardLog

B = b"b" * 16


def known(log: ShardLog) -> Topic:
    """The topic, as it is in the log."""
    found = log.announced.state.by_incarnation(INCARNATION)
    assert found is not None
    return found


def test_epochs_of_partitions_rise_without_a_row_of_the_topic() -> None:
    """Each time a leader changes; the topic's own epoch stays. Of a stream's topic such a batch waits for the row."""
    for owner_at, expected in (("kafka://old", {0: b"a", 1: b"b", 2: b"c"}), ("/mapr/a/s", {})):
        log = fresh(B)
        batches = [
            batch_of_epoch(epoch, at, value) for at, (epoch, value) in enumerate([(3, b"a"), (3, b"b"), (7, b"c")])
        ]
        befores = [(0, -1), (1, 3), (2, 3)]
        rows = [row_of(batch, after=after) for batch, after in zip(batches, befores, strict=True)]
        (outcome,) = applied(log, frame_of([topic_row(owner_at=owner_at), *rows]))
        topic = known(log)
        assert values_at(log, topic.number) == expected
        assert (outcome.appended, bool(outcome.behind)) == (len(expected), not expected)
        if expected:
            table, state = log.announced.state.topic_table, log.announced.state.partition(topic.number, 0)
            assert (topic.epoch, table.leader_epoch(topic.number, 0), table.leader_epochs(topic.number)) == (0, 7, (7,))
            assert state.history == ((3, 0), (7, 2))
            assert state.end_of_epoch(topic.epoch, 3) == (3, 2)


def test_whoever_takes_such_a_topic_over_begins_an_epoch_above_those_of_its_partitions() -> None:
    """Else what it writes would stand in an epoch below the record before it, and consumers would go back."""
    log = fresh(B)
    applied(log, frame_of([topic_row(), row_of(batch_of_epoch(5000, 0, b"a"), after=(0, -1))]))
    number = known(log).number
    committed(log, lambda draft: take_over(draft, number, owner_at="/mapr/b/s", writer_epoch_id=log.epoch.id))
    epoch = known(log).epoch
    assert epoch > 5000
    produced(log, number, b"b")
    assert log.announced.state.partition(number, 0).history == ((5000, 0), (epoch, 1))


def test_holes_markers_and_batches_of_transactions_are_kept_verbatim() -> None:
    """What was aborted does not come; its marker does, so that the log ends where Kafka's does. No transaction counts
    as aborted, since none of its records is here. The same frame once more changes nothing."""
    log = fresh(B)
    of_transaction = batch_of_epoch(2, 0, b"a", b"b", attributes=TRANSACTIONAL, producer_id=5)
    commit = batch_of_epoch(2, 2, b"", attributes=TRANSACTIONAL | CONTROL, producer_id=5)
    abort = batch_of_epoch(2, 8, b"", attributes=TRANSACTIONAL | CONTROL, producer_id=6)
    rows = [
        row_of(of_transaction, after=(0, -1)),
        row_of(commit, after=(2, 2)),
        row_of(abort, after=(3, 2)),
    ]
    frame = frame_of([topic_row(), *rows])
    (outcome,) = applied(log, frame)
    number = known(log).number
    state = log.announced.state
    assert (outcome.behind, outcome.conflicts, state.partition(number, 0).end) == (0, 0, 9)
    assert not state.transactions(number, 0).open
    assert not state.transactions(number, 0).aborted
    assert [bytes(row.batch) for row in rows_of(log) if row.topic == number and row.base_offset >= 0] == [
        of_transaction,
        commit,
        abort,
    ]
    (again,) = applied(log, frame)
    assert (again.appended, again.behind, again.conflicts) == (0, 0, 0)
    assert not list(check_all(log.announced.storage))


def test_the_newest_epochs_are_kept_of_a_kafka_cluster_s_partition() -> None:
    """One that begins an epoch a minute would fill the memory with its history; the same after a restart."""
    log = fresh(B)
    count = KAFKA_EPOCHS_MAX + 20
    rows = [row_of(batch_of_epoch(at + 1, at, b"v"), after=(at, at or -1)) for at in range(count)]
    (outcome,) = applied(log, frame_of([topic_row(), *rows]))
    number = known(log).number
    assert (outcome.appended, outcome.behind, outcome.conflicts) == (count, 0, 0)
    state = log.announced.state.partition(number, 0)
    assert len(state.history) == KAFKA_EPOCHS_MAX
    assert (state.history[-1], state.epoch, state.end) == ((count, count - 1), count, count)
    assert state.end_of_epoch(0, 1) == (1, 20)
    topic, before = known(log), [Cut(2, 0, 0, by_epoch=4099)]
    assert end_of_epoch(topic._replace(epoch=4099), state, before, 5) == (5, 20), "not cut: there were many since"
    again = opened(log.announced.storage, B, seed=9)
    assert again.announced.state.partition(number, 0) == state
    assert again.announced.state.topic_table.of_kafka == {number}


def test_where_another_topic_has_its_name_an_alias_names_its_owner() -> None:
    """The Kafka cluster is no path of a cluster, so the alias has the owner's id."""
    log = fresh(B)
    produced(log, made(log).number, b"ours")
    frame = frame_of([topic_row(), row_of(batch_of_epoch(0, 0, b"a"), after=(0, -1))])
    committed(log, lambda draft: apply_frame(draft, frame, Admission(aliases=True)))
    assert known(log).name == f"ships.at.{SOURCE.hex()}"


def goes_on_otherwise(at: int, *below: tuple[int, int], fence: int, partitions: int = 1) -> Row:
    """The row that says so of partition 0."""
    since = ((at, (*below, (fence, at))),)
    payload = TopicPayload("ships", INCARNATION, partitions, SOURCE, 50, 1, {}, "ships", "kafka://old", since)
    return control_row(Kind.TOPIC, payloads.encode(payload), topic=NUMBER)


def sent(rows: Sequence[Row], first: int, *, columns: bool) -> Frame:
    """A frame as it was made, or as it comes from a link."""
    frame = frame_of(rows, first=first)
    return decode_frame(encode_frame(frame)) if columns else frame


@pytest.mark.parametrize("columns", [False, True])
def test_where_kafka_s_log_goes_on_otherwise_the_copy_is_cut(columns: bool) -> None:
    """What was read there before and comes late is dropped; what Kafka has there now is appended, and stays when the
    row comes once more by another way. The rest of the topic goes on as it was."""
    log = fresh(B)
    old = [batch_of_epoch(3, at, b"%d" % at) for at in range(4)]
    rows = [row_of(batch, after=(at, 3 if at else -1)) for at, batch in enumerate(old)]
    other = row_of(batch_of_epoch(9, 0, b"other"), after=(0, -1), partition=1)
    applied(log, sent([topic_row(partitions=2), *rows[:3], other], 0, columns=columns))
    number = known(log).number
    cut = goes_on_otherwise(1, (3, 0), fence=4, partitions=2)
    (outcome,) = applied(log, sent([cut, rows[1], rows[2], rows[3]], 1, columns=columns))
    assert (outcome.appended, outcome.superseded, outcome.behind, outcome.conflicts) == (0, 3, 0, 0)
    assert values_at(log, number) == {0: b"0"}
    new = row_of(batch_of_epoch(7, 1, b"new"), after=(1, 3))
    more = row_of(batch_of_epoch(9, 1, b"more"), after=(1, 9), partition=1)
    (outcome,) = applied(log, sent([new, more, cut], 2, columns=columns))
    assert (outcome.appended, outcome.superseded, outcome.behind, outcome.conflicts) == (2, 0, 0, 0)
    assert values_at(log, number) == {0: b"0", 1: b"new"}
    state = log.announced.state
    assert state.partition(number, 0).history == ((3, 0), (7, 1))
    assert state.partition(number, 1).end == 2
    ((at, keep),) = [(each.offset, each.keep) for each in state.cuts_of(number, 0)]
    assert (at, keep) == (1, diverged_incarnation(INCARNATION, 3, 50))
    assert end_of_epoch(known(log), state.partition(number, 0), state.cuts_of(number, 0), 3) == (3, 1)
    assert not list(check_all(log.announced.storage))


def test_a_log_that_has_what_follows_already_is_not_cut() -> None:
    """It came by another way than the row did."""
    log = fresh(B)
    rows = [row_of(batch_of_epoch(3, 0, b"a"), after=(0, -1)), row_of(batch_of_epoch(7, 1, b"new"), after=(1, 3))]
    applied(log, frame_of([topic_row(), *rows]))
    (outcome,) = applied(log, frame_of([goes_on_otherwise(1, (3, 0), fence=4)], first=1))
    assert not log.announced.state.cuts_of(known(log).number, 0)
    assert (outcome.behind, outcome.conflicts) == (0, 0)


@pytest.mark.parametrize("knows", [False, True])
def test_what_follows_is_not_cut_where_it_begins_behind_a_hole(knows: bool) -> None:
    """Of what follows the first records were aborted, or compacted away. Whether the row comes before it or once more
    behind it, nothing that Kafka has is cut."""
    log = fresh(B)
    applied(log, frame_of([topic_row(), row_of(batch_of_epoch(3, 0, b"a"), after=(0, -1))]))
    row = goes_on_otherwise(1, (3, 0), fence=4)
    new = [
        row_of(batch_of_epoch(5, 3, b"b"), after=(1, 3)),
        row_of(batch_of_epoch(5, 4, b"c"), after=(4, 5)),
    ]
    applied(log, frame_of([row, *new] if knows else new, first=1))
    (outcome,) = applied(log, frame_of([row], first=2))
    number, state = known(log).number, log.announced.state
    assert (outcome.behind, outcome.conflicts) == (0, 0)
    assert not state.cuts_of(number, 0)
    assert state.partition(number, 0).history == ((3, 0), (5, 3))
    assert values_at(log, number) == {0: b"a", 3: b"b", 4: b"c"}


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_a_log_that_went_further_the_old_way_is_cut(is_on_disk: bool) -> None:
    """Whoever wrote the row had not read a later epoch of it: a record from before the fence stands where it begins."""
    log = fresh(B)
    rows = [
        row_of(batch_of_epoch(3, 0, b"a"), after=(0, -1)),
        row_of(batch_of_epoch(3, 1, b"b"), after=(1, 3)),
        row_of(batch_of_epoch(4, 2, b"c"), after=(2, 3)),
    ]
    applied(log, frame_of([topic_row(), *rows]))
    if is_on_disk:
        log = opened(log.announced.storage, B, seed=9)
    applied(log, frame_of([goes_on_otherwise(1, (3, 0), fence=4)], first=1))
    assert values_at(log, known(log).number) == {0: b"a"}


def test_who_lacks_some_of_what_is_common_has_it_brought() -> None:
    """And is cut where it has others all the same."""
    log = fresh(B)
    applied(log, frame_of([topic_row(), row_of(batch_of_epoch(3, 0, b"a"), after=(0, -1))]))
    (outcome,) = applied(log, frame_of([goes_on_otherwise(5, (3, 0), fence=6)], first=1))
    number = known(log).number
    assert (outcome.behind, log.announced.state.partition(number, 0).end) == (1, 1)
    assert [note.behind.end for note in log.announced.state.notes(LINK).values()] == [1]


def test_where_a_start_row_of_before_is_told_late_it_says_nothing_of_what_follows() -> None:
    """It is clipped to where the logs part, in that partition alone: in the others what is deleted stays so, also what
    is still to come."""
    log = fresh(B)
    rows = [row_of(batch_of_epoch(3, at, b"a"), after=(at, 3 if at else -1)) for at in range(3)]
    of_other = row_of(batch_of_epoch(9, 0, b"b"), after=(0, -1), partition=1)
    applied(log, frame_of([topic_row(partitions=2), *rows, of_other]))
    cut = goes_on_otherwise(2, (3, 0), fence=4, partitions=2)
    late = [
        control_row(
            Kind.START,
            payloads.encode(StartPayload(DELETED_RECORDS, 8, history, deleted_to=to)),
            topic=NUMBER,
            partition=partition,
            base_offset=0,
            origin=SOURCE,
        )
        for partition, history, to in ((0, ((3, 0),), 3), (1, ((9, 0),), 5))
    ]
    (outcome,) = applied(log, frame_of([late[1], cut, *late], first=1))
    number, state = known(log).number, log.announced.state
    assert (outcome.behind, outcome.conflicts) == (0, 0)
    assert [state.partition(number, each).deleted_to for each in (0, 1)] == [0, 5]


def test_whoever_takes_such_a_topic_over_ends_its_transactions() -> None:
    """Their records came since they were committed; the markers would never come. What is written then is read too."""
    log = fresh(B)
    transactional = {"attributes": TRANSACTIONAL, "producer_id": 7}
    rows = [
        row_of(batch_of_epoch(3, 0, b"a", **transactional), after=(0, -1)),
        row_of(batch_of_epoch(9, 0, b"b"), after=(0, -1), partition=1),
    ]
    applied(log, frame_of([topic_row(partitions=2), *rows]))
    number = known(log).number
    assert log.announced.state.transactions(number, 0).open == ((7, 0),)
    committed(log, lambda draft: take_over(draft, number, owner_at="/mapr/b/s", writer_epoch_id=log.epoch.id))
    state = log.announced.state
    assert not state.transactions(number, 0).open
    assert not state.transactions(number, 0).aborted
    assert [state.partition(number, each).end for each in (0, 1)] == [2, 1]
    produced(log, number, b"c")
    (marker,) = [row for row in rows_of(log) if row.topic == number and row.kind == Kind.BATCH and row.bits & CONTROL]
    header = read_header(marker.batch)
    assert (header.base_offset, header.producer_id, header.leader_epoch) == (1, 7, known(log).epoch)
    assert not is_abort(marker.batch)
    assert not list(check_all(log.announced.storage))


def test_a_takeover_from_a_lost_one_that_took_the_topic_over_ends_its_transactions() -> None:
    """The row by which that one did came here, and the ends that it wrote did not."""
    log = fresh(B)
    of_transaction = batch_of_epoch(3, 0, b"a", attributes=TRANSACTIONAL, producer_id=7)
    applied(log, frame_of([topic_row(), row_of(of_transaction, after=(0, -1))]))
    number = known(log).number
    row = TopicPayload("ships", INCARNATION, 1, b"a" * 16, 50, 1, {}, "ships", "/mapr/a/s", ((1, ((3, 0),)),))
    applied(log, frame_of([control_row(Kind.TOPIC, payloads.encode(row), topic=NUMBER)], first=1))
    assert (known(log).owner, known(log).is_of_kafka) == (b"a" * 16, False)
    assert log.announced.state.transactions(number, 0).open == ((7, 0),)
    committed(log, lambda draft: take_over(draft, number, owner_at="/mapr/b/s", writer_epoch_id=log.epoch.id))
    state = log.announced.state
    assert known(log).owner == B
    assert not state.transactions(number, 0).open
    assert not state.transactions(number, 0).aborted
    assert state.partition(number, 0).history == ((3, 0), (known(log).epoch, 1))
    produced(log, number, b"b")
    assert state.partition(number, 0).end == 3
    assert not list(check_all(log.announced.storage))
