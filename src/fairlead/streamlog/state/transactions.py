"""What batches of transactions say to a reader of committed records only (KIP-98), of one partition.

This version takes no transaction of a client, and of a Kafka cluster only committed ones come
(`ShardState.stable_end`). What a later version replicates is read as it says: records of a transaction
that is still open, and what lies behind them, are not shown, and a reader is told which transactions were aborted.
"""

from __future__ import annotations

from typing import NamedTuple


class Aborted(NamedTuple):
    """A transaction that was aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Of the control batch that says so."""


class Transactions(NamedTuple):
    """The transactions of one partition, as far as a reader must know of them."""

    open: tuple[tuple[int, int], ...] = ()
    """(producer id, offset of its first record) of those that have not ended."""
    aborted: tuple[Aborted, ...] = ()
    """In the order in which they ended."""

    def stable_end(self, end: int) -> int:
        """Where the records end of which it is known whether they were committed (the last stable offset), if the log
        ends at `end`."""
        return min((first for _, first in self.open), default=end)

    def aborted_in(self, first: int, end: int) -> tuple[Aborted, ...]:
        """Those that have records or their end in [first, end)."""
        return tuple(each for each in self.aborted if each.last_offset >= first and each.first_offset < end)

    def begun(self, producer_id: int, offset: int) -> Transactions:
        """A producer has written records of a transaction at that offset."""
        if any(known == producer_id for known, _ in self.open):
            return self
        return self._replace(open=(*self.open, (producer_id, offset)))

    def ended(self, producer_id: int, offset: int, *, abort: bool) -> Transactions:
        """A control batch at that offset has ended the producer's transaction."""
        first = next((first for known, first in self.open if known == producer_id), None)
        left = tuple(each for each in self.open if each[0] != producer_id)
        if first is None or not abort:
            return Transactions(left, self.aborted)
        return Transactions(left, (*self.aborted, Aborted(producer_id, first, offset)))

    def from_offset(self, start: int) -> Transactions:
        """Once the log begins at `start`."""
        return self._replace(aborted=tuple(each for each in self.aborted if each.last_offset >= start))

    def cut_at(self, offset: int) -> Transactions:
        """Once nothing stands from `offset` on: what was aborted there is open again. One that was committed there is
        not, since nothing is remembered of it: whoever writes transactions must not cut a log within one."""
        again = [(each.producer_id, each.first_offset) for each in self.aborted if each.last_offset >= offset]
        found = tuple(each for each in (*self.open, *again) if each[1] < offset)
        return Transactions(found, tuple(each for each in self.aborted if each.last_offset < offset))


NO_TRANSACTIONS = Transactions()
