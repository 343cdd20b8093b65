"""Topics that a Kafka cluster owns: their partitions have epochs of their own."""

from __future__ import annotations

from tests.streamlog.world import applied, committed, fresh, made, opened, produced, rows_of, values_at
from tests.support.kafka_rows import INCARNATION, SOURCE, batch_of_epoch, frame_of, row_of, topic_row

from fairlead.protocol.batch import CONTROL, TRANSACTIONAL
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.applying.frame import apply_frame
from fairlead.streamlog.fsck import check_all
from fairlead.streamlog.requests.ownership import take_over
from fairlead.streamlog.state.effects import KAFKA_EPOCHS_MAX
from fairlead.streamlog.values import Topic
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
