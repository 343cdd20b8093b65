"""Reading batches of a partition: the newest from memory, those before from commits and segments on disk.

Offsets may jump inside an answer, as in a log that was compacted. Only where nothing follows is a gap served as an
empty batch, as Kafka's log cleaner leaves them, so that consumers pass it too. Batches from disk are checked by their
CRC before they are handed out; an I/O or checksum error stops the log, and the error names the object. Batches before
damaged ones are handed out, and those after them to who asks for them; whether records are missing in between, the rows
say, since each knows where its partition ended before.
"""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from fairlead.model.errors import CorruptBatch, Damaged, OffsetOutOfRange, another
from fairlead.protocol.batch import CheckedBatch, check_stored, empty_batch, read_header
from fairlead.protocol.lookup import Room, first_record
from fairlead.protocol.record_checks import heads
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.reading.announced import AnnouncedLog
from fairlead.streamlog.reading.health import Health
from fairlead.streamlog.reading.places import BatchPlace, BatchPlaces
from fairlead.streamlog.reading.read_ahead import ReadAhead
from fairlead.streamlog.state.transactions import Aborted
from fairlead.streamlog.values import NotLoaded, PartitionState, RowKey, StoredBatch, stored, topic_with

STORED_KEPT = 1_000_000
"""Looked-up batches that are remembered for the apply rule; the oldest leave first, but none of the last look-up."""
COALESCE_BYTES_MAX = 64 * 1024 * 1024
"""Most bytes that neighbouring batches are read in with one call."""
LOOKUP_BATCHES = 4
"""A look-up decompresses as many bytes as so many of the largest batches have, whatever they decompress to."""
LOOKUP_RECORDS = 1_000_000
"""A look-up looks at so many records, which takes a second."""
_REST_SECONDS = 0.0005
"""A look-up rests as long as it works: while it works, the event loop cannot."""


_Key = tuple[int, int, int, int]
"""Topic number, partition, offset, and how often the partition was cut: what was known before is not found after it."""


class Fetched(NamedTuple):
    """Batches in offset order, each bytes-like; empty at the end of the partition."""

    batches: list[bytes | memoryview]
    high_watermark: int
    """End of the partition: the offset that its next record gets."""
    log_start: int
    stable_end: int
    """Where the records end of which it is known whether they were committed; mostly the end."""
    aborted: tuple[Aborted, ...] = ()
    """Transactions that were aborted and have to do with these batches, for who reads committed records only."""


class _Limit:
    """What may still be read: `max_bytes`, or one batch if that is larger and `at_least_one` is to be read."""

    __slots__ = ("_at_least_one", "_left_bytes")

    def __init__(self, max_bytes: int, at_least_one: bool) -> None:
        self._left_bytes = max_bytes
        self._at_least_one = at_least_one

    def takes(self, size_bytes: int) -> bool:
        """Whether the next batch fits; if so it is counted."""
        if size_bytes > self._left_bytes and not self._at_least_one:
            return False
        self._left_bytes -= size_bytes
        self._at_least_one = False
        return True


class LogReader:
    """Reads one shard's log. Any thread may call it."""

    def __init__(self, log: AnnouncedLog, health: Health, message_bytes_max: int) -> None:
        self._log = log
        self._lookup_bytes_max = LOOKUP_BATCHES * message_bytes_max
        self._health = health
        self._places = BatchPlaces(log, health.read_failed)
        self._stored: OrderedDict[_Key, StoredBatch | None] = OrderedDict()
        self._ahead = ReadAhead(self._read_on)

    @property
    def columns_bytes(self) -> int:
        """Size of the objects' columns that are kept for the next look."""
        return self._places.columns_bytes

    # From memory

    def fetch_cached(
        self,
        number: int,
        partition: int,
        offset: int,
        max_bytes: int,
        *,
        at_least_one: bool = True,
        committed: bool = False,
    ) -> Fetched | None:
        """Batches from `offset` on out of memory; None if the disk is needed. See `fetch`."""
        state = self._state(number, partition)
        if offset == state.end:
            return self._fetched(number, partition, [], state, committed=committed)
        if self._log.damage is not None and offset > state.end:
            raise another(self._log.damage)  # the end may lie higher: a consumer must not be sent back
        start = state.log_start
        if not start <= offset < state.end:
            raise OffsetOutOfRange(offset, start, state.end)
        batches = self._from_cache(number, partition, offset, _Limit(max_bytes, at_least_one))
        if batches is None:
            return None
        return self._fetched(number, partition, batches, state, committed=committed)

    def _fetched(
        self,
        number: int,
        partition: int,
        batches: list[bytes | memoryview],
        state: PartitionState,
        *,
        committed: bool,
    ) -> Fetched:
        """What was read, without the batches that who reads committed records only may not see yet."""
        if not len(self._log.state.partition_transactions):
            return Fetched(batches, state.end, state.log_start, state.end)
        known = self._log.state.transactions(number, partition)
        stable = self._log.state.stable_end(number, partition, state.end)
        if not committed:
            return Fetched(batches, state.end, state.log_start, stable)
        headers = [read_header(batch) for batch in batches]
        shown = [header for header in headers if header.base_offset < stable]
        aborted = known.aborted_in(shown[0].base_offset, shown[-1].last_offset + 1) if shown else ()
        return Fetched(batches[: len(shown)], state.end, state.log_start, stable, aborted)

    def _from_cache(self, number: int, partition: int, offset: int, limit: _Limit) -> list[bytes | memoryview] | None:
        """None if the next batch is not in memory."""
        rows, place = self._log.recent.find(number, partition, offset)
        batches: list[bytes | memoryview] = []
        for at in range(place, len(rows)):
            row = rows[at]
            if row.base_offset > offset and row.previous_end > offset:
                break  # there is something in between, which is not in memory
            if not limit.takes(len(row.batch)):
                return batches
            batches.append(row.batch)
            offset = row.last_offset + 1
        return batches or None

    def _state(self, number: int, partition: int) -> PartitionState:
        state = self._log.state
        if state.topic_table.slot_of(number, partition) < 0:
            topic_with(state.topic(number), number, partition)
        return state.partition(number, partition)

    # From disk

    def fetch(
        self,
        number: int,
        partition: int,
        offset: int,
        max_bytes: int,
        *,
        at_least_one: bool = True,
        committed: bool = False,
    ) -> Fetched:
        """Batches from `offset` on, at most `max_bytes`; a gap at the end as an empty one. If the first one alone is
        larger, it is read if there shall be `at_least_one`, else none. With `committed` only those before the stable
        end, and which transactions were aborted. Blocking.

        Raises:
            UnknownTopic, UnknownPartition, OffsetOutOfRange
            Damaged, StorageUnavailable: the log stops.
        """
        found = self.fetch_cached(number, partition, offset, max_bytes, at_least_one=at_least_one, committed=committed)
        if found is not None:
            return found
        self._health.check_readable()
        state = self._state(number, partition)
        limit = _Limit(max_bytes, at_least_one)
        ahead = self._ahead.take(self._key(number, partition, offset))
        if ahead:
            fitting = list(itertools.takewhile(lambda batch: limit.takes(len(batch)), ahead))
            return self._fetched(number, partition, fitting, state, committed=committed)
        with self._health.stopped_by_failed_reads():
            batches = self._from_disk(number, partition, offset, limit)
        return self._fetched(number, partition, batches, state, committed=committed)

    def ahead(self, number: int, partition: int, fetched: Fetched, max_bytes: int) -> Callable[[], None] | None:
        """A blocking job that reads what will be asked for after an answer of `fetch`; None if none is needed."""
        if not fetched.batches:
            return None
        next_offset = read_header(fetched.batches[-1]).last_offset + 1
        if next_offset >= fetched.high_watermark:
            return None
        return self._ahead.plan(self._key(number, partition, next_offset), max_bytes)

    def close(self) -> None:
        """Nobody reads any more."""
        self._ahead.close()
        self._places.close()

    def _key(self, number: int, partition: int, offset: int) -> _Key:
        return number, partition, offset, len(self._log.state.cuts_of(number, partition))

    def _read_on(self, number: int, partition: int, offset: int, _: int, max_bytes: int) -> list[bytes | memoryview]:
        return self._from_disk(number, partition, offset, _Limit(max_bytes, at_least_one=True))

    def _from_disk(self, number: int, partition: int, offset: int, limit: _Limit) -> list[bytes | memoryview]:
        # Before the look, so that what is announced meanwhile is not taken for a part of a gap.
        cut_count = self._log.state.cut_count
        state = self._state(number, partition)
        chosen: list[BatchPlace] = []
        try:
            for piece in self._places.from_offset(number, partition, offset):
                if piece.base_offset > offset and not chosen:
                    # Not a gap, maybe, but records that expired meanwhile.
                    self._check_start(number, partition, offset)
                if not limit.takes(piece.size):
                    return self._read(chosen)
                chosen.append(piece)
                offset = piece.last_offset + 1
        except Damaged as error:
            if not chosen:
                raise
            self._health.read_failed(error)
        if chosen:
            return self._read(chosen)
        end = min(state.end, self._check_start(number, partition, offset))
        if end <= offset or self._log.state.cut_count != cut_count:
            return []
        gap = empty_batch(offset, end - 1, state.epoch)
        return [gap] if limit.takes(len(gap)) else []

    def _check_start(self, number: int, partition: int, offset: int) -> int:
        """Where the partition ends now, if it still has the offset, or ends there: records that expired meanwhile must
        be told to a consumer, and that the log was cut and ends where it did not.

        Raises:
            OffsetOutOfRange
        """
        now = self._state(number, partition)
        if not now.log_start <= offset <= now.end:
            raise OffsetOutOfRange(offset, now.log_start, now.end)
        return now.end

    def _read(self, pieces: Sequence[BatchPlace]) -> list[bytes | memoryview]:
        batches: list[bytes | memoryview] = []
        try:
            for run in _neighbours(pieces):
                start = run[0].position
                length = run[-1].position + run[-1].size - start
                data = memoryview(self._log.storage.get_range(run[0].name, start, length))
                for piece in run:
                    batch = data[piece.position - start : piece.position - start + piece.size]
                    _check(piece, batch)
                    batches.append(batch)
        except Damaged as error:
            if not batches:
                raise
            self._health.read_failed(error)
        return batches

    # What is stored at an offset, for the apply rule

    def find_stored(self, number: int, partition: int, offset: int) -> StoredBatch | None:
        """The announced batch that holds an offset below the end; None in a gap or where it has expired.

        Raises:
            NotLoaded: it is only on disk, and was not loaded by `load_stored`.
        """
        if offset < self._log.state.partition(number, partition).start:
            return None
        rows, place = self._log.recent.find(number, partition, offset)
        if place < len(rows):
            if rows[place].base_offset <= offset:
                return stored(rows[place])
            if rows[place].previous_end <= offset:
                return None
        key = self._key(number, partition, offset)
        if key in self._stored:
            return self._stored[key]
        raise NotLoaded([(number, partition, offset)])

    def load_stored(self, keys: Sequence[RowKey]) -> None:
        """Look rows up on disk so that `find_stored` knows them. Blocking.

        Raises:
            Damaged, StorageUnavailable: the log stops.
        """
        with self._health.stopped_by_failed_reads():
            for key in keys:
                self._stored[self._key(*key)] = self._load(*key)
        while len(self._stored) > max(STORED_KEPT, len(keys)):
            self._stored.popitem(last=False)

    def forget_stored(self) -> None:
        """Nobody needs what was looked up any more: each batch is asked for once, by the request that waits for it."""
        self._stored.clear()

    def _load(self, number: int, partition: int, offset: int) -> StoredBatch | None:
        piece = next(self._places.from_offset(number, partition, offset), None)
        if piece is None or piece.base_offset > offset:
            return None
        return StoredBatch(piece.base_offset, piece.last_offset, piece.epoch, piece.origin, piece.crc)

    # Rows, for a site that lacks them

    def rows_from(self, number: int, partition: int, offset: int) -> Iterator[tuple[Columns, range]]:
        """As `BatchPlaces.rows_from`. Blocking.

        Raises:
            Damaged, StorageUnavailable
        """
        self._health.check_readable()
        return self._places.rows_from(number, partition, offset)

    # Look-ups

    def offset_for_time(self, number: int, partition: int, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with at least that time; None if there is none. Blocking.

        A batch that is too large to look into, or whose records do not hold together, may have the record: the answer
        is its first offset then, so that nobody is led past a record.

        Raises:
            UnknownTopic, UnknownPartition
            Damaged, StorageUnavailable: the log stops.
        """
        start = self._state(number, partition).log_start
        return self._first(self._places.since(number, partition, start, timestamp_ms), start, timestamp_ms)

    def offset_of_newest(self, number: int, partition: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with the largest timestamp. Blocking; see `offset_for_time`."""
        start = self._state(number, partition).log_start
        newest = self._newest(number, partition, start)
        if newest is None:
            return None
        found = self._first((newest,), start, newest.max_timestamp)
        if found is not None or newest.base_offset >= start:
            return found
        # The record that is its newest was deleted: another one is, there or in a batch behind it.
        behind = self._newest(number, partition, newest.last_offset + 1)
        there = self._newest_in(newest, start)
        if behind is None or (there is not None and there[1] >= behind.max_timestamp):
            return there
        return self._first((behind,), start, behind.max_timestamp)

    def _newest(self, number: int, partition: int, offset: int) -> BatchPlace | None:
        """The first batch from an offset on that says that it has the newest record."""
        self._health.check_readable()
        with self._health.stopped_by_failed_reads():
            found = self._places.newest(number, partition, offset)
            return max(found, key=lambda piece: piece.max_timestamp, default=None)

    def _newest_in(self, piece: BatchPlace, start: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record of a batch from `start` on with their largest timestamp."""
        with self._health.stopped_by_failed_reads():
            (batch,) = self._read([piece])
        records = heads(CheckedBatch(read_header(batch), batch), self._lookup_bytes_max, _rest)
        places = (
            (piece.base_offset + head.offset, head.timestamp) for head in itertools.islice(records, LOOKUP_RECORDS)
        )
        try:
            return max((place for place in places if place[0] >= start), key=itemgetter(1), default=None)
        except CorruptBatch:
            return start, piece.max_timestamp

    def time_at(self, number: int, partition: int, offset: int) -> int | None:
        """Timestamp of the record at an offset, or of the next one behind a gap; None at the end. Blocking; see
        `offset_for_time`."""
        offset = max(offset, self._state(number, partition).log_start)
        found = self._first(self._places.from_offset(number, partition, offset), offset, None)
        return None if found is None else found[1]

    def _first(self, pieces: Iterable[BatchPlace], offset: int, timestamp_ms: int | None) -> tuple[int, int] | None:
        room = Room(self._lookup_bytes_max, LOOKUP_RECORDS)
        self._health.check_readable()
        with self._health.stopped_by_failed_reads():
            for piece in pieces:
                (batch,) = self._read([piece])
                if timestamp_ms is not None and _says_earlier(batch, timestamp_ms):
                    continue
                try:
                    found = first_record(batch, room, _rest, from_offset=offset, timestamp_ms=timestamp_ms)
                except CorruptBatch:
                    return max(piece.base_offset, offset), piece.max_timestamp
                if found is not None:
                    return found
        return None


def _rest() -> None:
    time.sleep(_REST_SECONDS)


def _says_earlier(batch: bytes | memoryview, timestamp_ms: int) -> bool:
    """Its header says that all its records are earlier. A largest time below the first record's was left out."""
    header = read_header(batch)
    return header.base_timestamp <= header.max_timestamp < timestamp_ms


def _neighbours(pieces: Sequence[BatchPlace]) -> Iterator[list[BatchPlace]]:
    """Groups of pieces that lie side by side in one object, up to 64 MB each."""
    run: list[BatchPlace] = []
    for piece in pieces:
        if run and (
            run[-1].name != piece.name
            or run[-1].position + run[-1].size != piece.position
            or piece.position + piece.size - run[0].position > COALESCE_BYTES_MAX
        ):
            yield run
            run = []
        run.append(piece)
    if run:
        yield run


def _check(piece: BatchPlace, batch: memoryview) -> None:
    try:
        check_stored(batch, piece.base_offset, piece.last_offset)
    except CorruptBatch as error:
        raise Damaged(piece.name, f"batch at {piece.position}: {error}") from error
