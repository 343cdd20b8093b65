"""Who reads committed records only is shown no others, wherever batches of transactions come from."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from tests.streamlog.world import (
    SETTINGS,
    SeededRandomness,
    applied,
    batch_of,
    committed,
    frame,
    fresh,
    installed,
    made,
    opened,
    produced,
    replicated,
)
from tests.support.batches import changed
from tests.support.kafka_rows import INCARNATION, batch_of_epoch, frame_of, row_of, topic_row
from tests.support.rows import said_of

from fairlead.model.names import slice_of
from fairlead.protocol.batch import CONTROL, TRANSACTIONAL, build_batch, is_abort, read_header, set_offset
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.payloads import StartPayload
from fairlead.streamlog.requests.cuts import cut
from fairlead.streamlog.rows import ABORT, Kind
from fairlead.streamlog.state import snapshot
from fairlead.streamlog.state.transactions import NO_TRANSACTIONS, Aborted, Transactions
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.writer import ShardLog

A, B = b"a" * 16, b"b" * 16
ENDS = {True: b"\0\0\0\0", False: b"\0\0\0\1"}
"""Keys of the records that end a transaction, by whether they abort it."""


def put(log: ShardLog, number: int, batch: bytes, bits: int) -> None:
    """A batch as a later version writes it."""
    base = log.announced.state.partition(number, 0).end
    last = base + read_header(batch).last_offset_delta
    batch = bytes(set_offset(batch, base, 0))
    records, _, crc = said_of(batch)
    add = partial(Draft.add_batch, records=records, crc=crc, bits=bits | read_header(batch).attributes)
    committed(log, lambda d: add(d, number, 0, base, last, 0, A, None, 0, batch))


def data(log: ShardLog, number: int, producer: int, *values: bytes) -> None:
    put(log, number, changed(batch_of(*values, producer_id=producer, epoch=0), attributes=TRANSACTIONAL), 0)


def end(log: ShardLog, number: int, producer: int, *, abort: bool) -> None:
    marker = build_batch([(ENDS[abort], b"\0\0\0\0\0\0")], producer_id=producer, producer_epoch=0)
    put(log, number, changed(marker, attributes=CONTROL | TRANSACTIONAL), ABORT if abort else 0)


def lived() -> tuple[ShardLog, int]:
    """7 writes [0, 1], anybody 2, 8 writes 3, 7 is aborted at 4, 9 begins at 5, 8 is committed at 6."""
    log = fresh(A, settings=replace(SETTINGS, merge_commits_min=1))
    number = made(log).number
    data(log, number, 7, b"a", b"b")
    produced(log, number, b"c")
    data(log, number, 8, b"d")
    end(log, number, 7, abort=True)
    data(log, number, 9, b"e")
    end(log, number, 8, abort=False)
    return log, number


def shown(log: ShardLog, number: int, offset: int = 0) -> tuple[list[int], int, list[tuple[int, int, int]]]:
    """First offsets of the batches, the stable end, and what was aborted: from memory, and the same from the disk."""
    found = log.reader.fetch(number, 0, offset, 1 << 20, committed=True)
    return (
        [read_header(batch).base_offset for batch in found.batches],
        found.stable_end,
        [each[:] for each in found.aborted],
    )


def merged(log: ShardLog) -> None:
    while (job := log.upkeep.plan()) is not None:
        installed(log, run_job.run(log.announced.storage, SeededRandomness(log.announced.end), job))


def test_no_record_of_an_open_transaction_is_shown_nor_what_comes_after() -> None:
    """The stable end is where the oldest open one began; it moves with the batch that ends it. Who reads all records
    gets all."""
    log, number = lived()
    assert shown(log, number) == ([0, 2, 3, 4], 5, [(7, 0, 4)])
    everything = log.reader.fetch(number, 0, 0, 1 << 20)
    assert (len(everything.batches), everything.stable_end, everything.high_watermark) == (6, 5, 7)
    assert shown(log, number, 5) == ([], 5, [])
    end(log, number, 9, abort=True)
    assert shown(log, number) == ([0, 2, 3, 4, 5, 6, 7], 8, [(7, 0, 4), (9, 5, 7)])
    assert shown(log, number, 5) == ([5, 6, 7], 8, [(9, 5, 7)])


def test_a_replica_shows_the_same_as_the_site_where_they_were_written() -> None:
    """Also after a start, from commits, segments and a checkpoint. A site that showed aborted records as committed
    would be worse than one that shows none."""
    log, number = lived()
    b = fresh(B, settings=log.settings)
    replicated(log, b)
    copy = b.announced.state.by_name("ships")
    assert copy is not None
    expected = shown(log, number)
    for each in (log, b):
        own = each.announced.state.stream_id
        assert shown(each, copy.number) == expected
        again = opened(each.announced.storage, own, settings=log.settings)
        assert shown(again, copy.number) == expected
        merged(again)
        last = opened(again.announced.storage, own)
        assert shown(last, copy.number) == expected
        loaded = snapshot.load(own, *snapshot.dump(last.announced.state))
        assert loaded.transactions(copy.number, 0) == Transactions(((9, 5),), (Aborted(7, 0, 4),))
        assert not len(loaded.partition_transactions) - 1


@pytest.mark.parametrize(
    ("owner_at", "epoch", "shown_now"), [("kafka://old", 3, ([0, 5], 6, [])), ("/mapr/ny/x", 0, ([], 0, []))]
)
def test_what_comes_from_kafka_is_committed_though_its_marker_was_deleted_there(
    owner_at: str, epoch: int, shown_now: tuple[list[int], int, list[tuple[int, int, int]]]
) -> None:
    """By retention or compaction, before it came: it never comes, and readers would stand before the record for ever.
    Of a stream's topic nobody knows."""
    log = fresh(B)
    batch = batch_of_epoch(epoch, 0, b"a", attributes=TRANSACTIONAL, producer_id=7)
    rows = [row_of(batch, after=(0, -1)), row_of(batch_of_epoch(epoch, 5, b"b"), after=(1, epoch))]
    applied(log, frame_of([topic_row(owner_at=owner_at), *rows]))
    topic = log.announced.state.by_incarnation(INCARNATION)
    assert topic is not None
    assert shown(log, topic.number) == shown_now


def test_a_cut_takes_back_the_end_of_a_transaction() -> None:
    """What stood there is no part of the history: the transaction is open again, and what began there is not."""
    log, number = lived()
    committed(log, lambda d: cut(d, number, 0, 4, "ownership", 9, None))
    expected = Transactions(((7, 0),))
    assert log.announced.state.transactions(number, 0) == expected
    assert opened(log.announced.storage, A).announced.state.transactions(number, 0) == expected


def test_what_was_aborted_is_forgotten_with_its_records() -> None:
    """Nobody reads below the log's start."""
    log, number = lived()
    start = StartPayload("ttl", 5, ((0, 0),))
    committed(log, lambda d: d.add_control(Kind.START, start, number=number, partition=0, base_offset=5))
    assert log.announced.state.transactions(number, 0) == Transactions(((9, 5),))


@pytest.mark.parametrize("abort", [True, False])
def test_a_row_says_what_the_batch_that_ends_a_transaction_says(abort: bool) -> None:
    """Otherwise a damaged or hostile row would have aborted records shown as committed, or hide committed ones."""
    log = fresh(A)
    number = made(log).number
    data(log, number, 7, b"a")
    end(log, number, 7, abort=abort)
    f = frame(log, B, slice_of("ships"), 0)
    *rows, last = f.rows
    assert is_abort(last.batch) == abort
    assert applied(fresh(B), f)[0].behind == 0
    assert applied(fresh(B), replace(f, rows=[*rows, last._replace(bits=last.bits ^ ABORT)]))[0].behind == 1


def test_a_control_batch_of_another_kind_aborts_nothing() -> None:
    """Kafka has some that have nothing to do with transactions, and a damaged one says nothing."""
    for key in (b"\0\0\0\1", b"\0\0\0\5", b"", None):
        assert not is_abort(build_batch([(key, b"")]))
    assert not is_abort(build_batch([(ENDS[True], b""), (ENDS[True], b"")]))
    assert not is_abort(build_batch([(ENDS[True], b"")])[:-1])


def test_an_end_without_a_beginning_says_nothing() -> None:
    """The first batches of the transaction have expired, or its producer wrote to other partitions only."""
    assert NO_TRANSACTIONS.ended(7, 4, abort=True) == NO_TRANSACTIONS
    begun = NO_TRANSACTIONS.begun(7, 1)
    assert begun.begun(7, 3) == begun
    assert begun.begun(8, 3).stable_end(9) == 1
