"""Reads the partitions that a replica has noted behind, and hands them on as frames.

In: a `RepairGrant` (which partitions, from which offsets). Out: frames that are marked as a repair, the last of each
partition also as its last.
"""

from __future__ import annotations

import numpy as np

from fairlead.model.errors import Damaged
from fairlead.replication.credit import CreditWindow
from fairlead.replication.reader.framer import Framer, HandOn
from fairlead.replication.reader.grant_reader import FrameLimits, Misses
from fairlead.replication.reader.in_thread import in_thread
from fairlead.replication.reader.log_view import LogView, Send
from fairlead.storage.interface import Storage
from fairlead.streamlog.frames.frame import Repair
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.objects.dead import DeadRows
from fairlead.streamlog.reading.slices import bytes_in_frame, read_partition
from fairlead.streamlog.rows import Kind
from fairlead.wire.control import Done, Located, RepairGrant, RepairPartition


class RepairReader:
    """Brings partitions that a replica has noted behind: one by one, found by the index, in frames of their own."""

    def __init__(
        self,
        grant: RepairGrant,
        view: LogView,
        storage: Storage,
        credit: CreditWindow,
        send: Send,
        hand_on: HandOn,
        limits: FrameLimits,
    ) -> None:
        self.grant = grant
        self.credit = credit
        self._view = view
        self._storage = storage
        self._send = send
        self._limits = limits
        self._framer = Framer(grant, view, credit, hand_on)
        self._done = False

    @property
    def caught_up(self) -> bool:
        """Whether every partition was read, handed on and answered."""
        return self._done and self.credit.settled

    def report(self) -> None:
        """Nothing: a repair moves no position."""

    async def run(self) -> None:
        """Read and hand on. Raises StorageUnavailable if the storage fails."""
        for partition in self.grant.partitions:
            await self._repair(partition)
        await self.credit.until_settled()
        self._done = True
        await self._send(Done(self.grant.grant))

    async def _repair(self, wanted: RepairPartition) -> None:
        """Bring one partition. The last frame is marked as last; if there is no row it is empty, so that the note is
        cleared nevertheless."""
        misses = Misses()
        while True:
            located = await self._view.locate(wanted.number, wanted.partition, wanted.end)
            try:
                end = await self._bring(wanted, located)
            except Damaged as error:
                await misses.pause(error)
            else:
                await self._frame(wanted, located.end, end, None, last=True)
                return

    async def _bring(self, wanted: RepairPartition, located: Located) -> int:
        """Hand on every row from where the partition is behind, whoever wrote it and whichever way it came: after a
        change of owner the replica may lack rows that the link does not send. Returns where its log ends with them."""
        end = wanted.end
        parts = read_partition(
            self._storage,
            located.objects,
            wanted.number,
            wanted.partition,
            wanted.end,
            frame_bytes=self._limits.frame_bytes,
            dead=DeadRows(located.cuts),
            cursors=self.grant.cursors,
            begin=self.grant.begin,
        )
        async for found in in_thread(parts, bytes_in_frame):
            for columns in found:
                end = max(end, end_told(columns))
                await self._frame(wanted, located.end, end, columns, last=False)
        return end

    async def _frame(
        self, wanted: RepairPartition, read_to: int, end: int, columns: Columns | None, *, last: bool
    ) -> None:
        repair = Repair(wanted.number, wanted.partition, read_to, last, end)
        body = None if columns is None else await self._framer.body(columns)
        await self._framer.send(1 << slice_of_number(wanted.number), read_to, read_to, body, repair)
        await self._framer.flush()


def end_told(columns: Columns) -> int:
    """Where a partition's log ends with these rows, its batches and START rows; 0 if there are none."""
    ends = np.where(columns.kind == Kind.BATCH, columns.last_offset + 1, 0)
    starts = np.where(columns.kind == Kind.START, columns.base_offset, 0)
    return int(max(ends.max(initial=0), starts.max(initial=0)))
