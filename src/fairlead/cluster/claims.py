"""Claims: what a diverged topic of a stream keeps is appended to the topic that it was cut off, each record once.

In: a diverged topic and the topic that is to have its records, both of the stream. Out: how many records were appended,
and why not all could be.
Always true: progress is in the log of the topic that gets them, in the same commit (`requests/claimed.py`), so a claim
that is begun again, here or at a later owner, brings only what is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from fairlead.cluster.stream import Stream
from fairlead.model.errors import NotAllowed, OffsetOutOfRange
from fairlead.protocol.batch import read_header
from fairlead.streamlog.reading.fetch import Fetched
from fairlead.streamlog.requests.claim import claim, tail_batches
from fairlead.streamlog.requests.claimed import SEQUENCES, OfTail, claimed, tail_id
from fairlead.streamlog.requests.diverged import parent_of
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.shard import Shard

CLAIMED_BYTES: Final = 4_000_000
"""About so much is claimed in one commit."""
_TIMESTAMP_TYPE: Final = "message.timestamp.type"


@dataclass(frozen=True, slots=True)
class Claiming:
    """A diverged topic, and the topic into which its records go."""

    stream: Stream
    topic: Topic
    into: Topic

    def unclaimed(self, partition: int) -> int:
        """How many offsets of a partition of the diverged topic are not claimed, by what is known here."""
        tail = self._tail.state.partition(self.topic.number, partition)
        return tail.end - self._next(partition, tail.log_start)

    async def run(self, go_on: Callable[[], bool] = lambda: True, told: Callable[[int], None] = lambda _: None) -> str:
        """Append what is missing, as far as it is here now, or until it shall not `go_on`; answers why some of it
        cannot be claimed, empty if it can. `told` hears how many records each commit has appended.

        Raises:
            UnknownTopic, NotOwner, OwnerPending, NotAllowed, InvalidValue
            Damaged, StorageFull, StorageUnavailable
        """
        if self.topic.partitions > self.into.partitions:
            raise NotAllowed(
                f"it has {self.topic.partitions} partitions, {self.into.name} has {self.into.partitions}; "
                f"give {self.into.name} as many"
            )
        left = [await self._partition(partition, go_on, told) for partition in range(self.topic.partitions)]
        return "; ".join(filter(None, left))

    async def _partition(self, partition: int, go_on: Callable[[], bool], told: Callable[[int], None]) -> str:
        end = self._tail.state.partition(self.topic.number, partition).end
        at, id = self._begin(partition), tail_id(self.topic.incarnation, partition)
        while at < end and go_on():
            try:
                fetched = await asyncio.to_thread(self._read, partition, at)
            except OffsetOutOfRange as error:
                if at > error.end:
                    return f"partition {partition} was cut meanwhile; claim it again"
                # Records expire while they are claimed.
                at = max(at, error.start)
                continue
            batches = tail_batches(id, fetched.batches, fetched.aborted)
            to = _end_of(fetched, at)
            if to == at:
                why = "the end of a transaction is missing" if fetched.stable_end < end else "claim it again"
                return f"{end - at:,} records of partition {partition} cannot be claimed: {why}"
            request = partial(
                claim,
                number=self.into.number,
                partition=partition,
                id=id,
                batches=batches,
                to=to,
                stamped=self._stamped,
                start=self._tail.state.partition(self.topic.number, partition).log_start,
            )
            told(await self._target.submit(request, sum(len(batch.data) for batch in batches)))
            at = to
        return ""

    def _begin(self, partition: int) -> int:
        """Where a claim goes on.

        Raises:
            NotAllowed: the sequence numbers do not tell the records apart.
        """
        tail = self._tail.state.partition(self.topic.number, partition)
        if tail.end - tail.start >= SEQUENCES:
            raise NotAllowed(
                f"partition {partition} has {tail.end - tail.start:,} records; a claim takes {SEQUENCES - 1:,} at most"
            )
        passed = self._of_tail(partition).passed
        return tail.log_start if passed is None else max(passed.to, tail.log_start)

    def _next(self, partition: int, start: int) -> int:
        return self._of_tail(partition).next_offset(start)

    def _of_tail(self, partition: int) -> OfTail:
        known = claimed(self._target.state, self.into.number, partition)
        return known.get(tail_id(self.topic.incarnation, partition), OfTail())

    @property
    def _stamped(self) -> bool:
        """Records get the time of the claim (LogAppendTime)."""
        kind = self.into.configs.get(_TIMESTAMP_TYPE, self.stream.settings.timestamp_type)
        return kind.lower() == "logappendtime"

    def _read(self, partition: int, at: int) -> Fetched:
        return self._tail.reader.fetch(self.topic.number, partition, at, CLAIMED_BYTES, committed=True)

    @property
    def _tail(self) -> Shard:
        return self.stream.shard_for(self.topic.name)

    @property
    def _target(self) -> Shard:
        return self.stream.shard_for(self.into.name)


def _end_of(fetched: Fetched, at: int) -> int:
    """The offset behind what was read from `at` on."""
    return read_header(fetched.batches[-1]).last_offset + 1 if fetched.batches else at


def parent(stream: Stream, topic: Topic) -> Topic | None:
    """The topic whose tail a diverged topic keeps, if it is here."""
    incarnation = parent_of(topic)
    if incarnation is None:
        return None
    found = stream.by_incarnation(incarnation)
    return None if found is None else found[1]
