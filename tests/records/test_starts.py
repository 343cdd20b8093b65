"""What `start` rows of real logs say to a reader: which of them tell of a loss."""

from __future__ import annotations

from tests.streamlog.merging.test_dead_rows import merged, of
from tests.streamlog.world import DAY_MS, FakeClock, applied, frame, fresh, produced, rows_of

from fairlead.model.names import slice_of
from fairlead.records.reading import is_loss
from fairlead.streamlog.payloads import decode_start
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.writing.writer import ShardLog

B = b"b" * 16


def losses(log: ShardLog) -> list[tuple[int, bool]]:
    """Where START rows stand, and whether each tells of a loss."""
    starts = [row for row in rows_of(log) if row.kind == Kind.START]
    return [(row.base_offset, is_loss(decode_start(row.batch), row.base_offset, row.previous_end)) for row in starts]


def source() -> ShardLog:
    """A log whose first three records have expired."""
    clock = FakeClock()
    log, number = of(clock)
    for value in (b"0", b"1", b"2"):
        produced(log, number, value)
    clock.pass_ms(11 * DAY_MS)
    produced(log, number, b"3")
    assert merged(log)
    return log


def test_what_expires_is_a_loss_where_it_was() -> None:
    """Whoever has read up to there has not got it all."""
    assert losses(source()) == [(3, True)]


def test_what_expired_before_a_replica_was_made_is_no_loss_there() -> None:
    """Its partition begins behind that; for a query at the replica it is a new topic."""
    replica = fresh(B)
    applied(replica, frame(source(), B, slice_of("ships"), 0, created=100))
    assert losses(replica) == [(3, False)]


def test_what_expired_unsent_is_a_loss_at_the_replica() -> None:
    """The link was there, and was to bring it."""
    replica = fresh(B)
    applied(replica, frame(source(), B, slice_of("ships"), 0, created=0))
    assert losses(replica) == [(3, True)]
