"""One commit while it is made: requests add rows, each sees what the rows before it have done.

A request is a function of the draft. It checks first and adds rows after; if it raises nevertheless, its rows are taken
back and the error is its answer. Nothing here changes the shard's state: that happens when the commit is durable and
announced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from fairlead.model.clock import Randomness, SystemRandomness
from fairlead.model.errors import InvalidValue, StorageFull, another
from fairlead.model.limits import CONTROL_ROW_BYTES_MAX
from fairlead.streamlog import payloads
from fairlead.streamlog.rows import NO_COMMIT, NO_EPOCH, NO_OFFSET, NO_TOPIC, Kind, Row, kind_name
from fairlead.streamlog.state import effects
from fairlead.streamlog.state.overlay import Overlay
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import NotLoaded, PartitionKey, RowKey, StoredBatch, stored
from fairlead.streamlog.writing.news import News

T = TypeVar("T")
DraftRequest = Callable[["Draft"], T]
FindStored = Callable[[int, int, int], StoredBatch | None]
"""(topic number, partition, offset) → the announced batch that holds the offset, None in a gap. Raises NotLoaded."""


def _find_nothing(number: int, partition: int, offset: int) -> StoredBatch | None:
    return None


class Draft:
    """The rows of the next commit, and the state as they leave it."""

    def __init__(
        self,
        state: ShardState,
        commit: int,
        now_ms: int,
        *,
        find_stored: FindStored = _find_nothing,
        full: StorageFull | None = None,
        randomness: Randomness | None = None,
        opened_at_ms: int = 0,
    ) -> None:
        self.state = Overlay(state)
        """The state as the rows so far leave it; a new object once rows were taken back."""
        self.stream_id = state.stream_id
        self.commit = commit
        self.now_ms = max(now_ms, state.appended_at_last)
        """appended_at of every row; never below that of the commit before."""
        self.opened_at_ms = opened_at_ms
        """appended_at of the newest row when the log was opened: nothing of what came later is forgotten."""
        self.rows: list[Row] = []
        self.news: list[News] = []
        """What of it the server's log tells, once the commit is durable."""
        self.batch_bytes = 0
        self._find_stored = find_stored
        self._full = full
        self._randomness = randomness or SystemRandomness()
        self._batches_at: dict[tuple[int, int], list[int]] = {}
        """Of the rows before `_placed`."""
        self._placed = 0
        self._cut_at: dict[tuple[int, int], int] = {}
        """The lowest offset at which this commit cuts each partition that it cuts."""
        self._announced = state

    def run(self, request: DraftRequest[T]) -> T:
        """Let one request add its rows; if it raises, it has added none."""
        before, told = len(self.rows), len(self.news)
        try:
            return request(self)
        except BaseException:
            del self.news[told:]
            if len(self.rows) > before:
                self._take_back(before)
            raise

    def _take_back(self, count: int) -> None:
        kept = self.rows[:count]
        self.state = Overlay(self._announced)
        self.rows, self.batch_bytes, self._batches_at, self._placed, self._cut_at = [], 0, {}, 0, {}
        for row in kept:
            self._add(row)

    def new_id(self) -> bytes:
        """16 random bytes."""
        return self._randomness.id16()

    def room_for_batches(self) -> None:
        """Refuse a request that brings batches while the disk's reserve is reached.

        Raises:
            StorageFull
        """
        if self._full is not None:
            raise another(self._full)

    def add_batch(
        self,
        number: int,
        partition: int,
        base_offset: int,
        last_offset: int,
        epoch: int,
        origin: bytes | None,
        via: bytes | None,
        max_timestamp: int,
        batch: bytes | memoryview,
        *,
        records: int,
        bits: int,
        crc: int,
        via_commit: int = NO_COMMIT,
    ) -> Row:
        """Append a batch at the partition's end (or beyond it: the offsets between are a gap of the source).
        `via_commit` is the commit of the log that it came `via`.

        Raises:
            StorageFull: the disk's reserve is reached.
            CorruptBatch: replaying the row would fail, so it must not become durable.
        """
        self.room_for_batches()
        before = self.state.partition(number, partition)
        row = Row(
            Kind.BATCH,
            number,
            partition,
            base_offset,
            last_offset,
            epoch,
            before.end,
            before.epoch,
            origin,
            via,
            via_commit,
            self.now_ms,
            max_timestamp,
            records,
            bits,
            crc,
            self.commit,
            len(self.rows),
            batch,
        )
        self._add(row)
        return row

    def add_copy(self, row: Row, number: int, *, origin: bytes | None, via: bytes | None, via_commit: int) -> Row:
        """Append a batch as it stands in another log, or for another topic of this one: at its own offsets, of its own
        epoch. Raises as `add_batch`."""
        return self.add_batch(
            number,
            row.partition,
            row.base_offset,
            row.last_offset,
            row.epoch,
            origin,
            via,
            row.max_timestamp,
            row.batch,
            records=row.records,
            bits=row.bits,
            crc=row.crc,
            via_commit=via_commit,
        )

    def add_control(
        self,
        kind: int,
        payload: payloads.Payload | bytes,
        *,
        number: int = NO_TOPIC,
        partition: int = -1,
        base_offset: int = NO_OFFSET,
        origin: bytes | None = None,
        via: bytes | None = None,
        via_commit: int = NO_COMMIT,
    ) -> Row:
        """Append a control row, of a payload or of its bytes.

        Raises:
            InvalidValue: its payload is larger than a control row may be.
            CorruptBatch: replaying the row would fail, so it must not become durable.
        """
        data = payload if isinstance(payload, bytes) else payloads.encode(payload)
        if len(data) > CONTROL_ROW_BYTES_MAX:
            raise InvalidValue(f"{kind_name(kind)} row of {len(data):,} bytes: at most {CONTROL_ROW_BYTES_MAX:,}")
        end, epoch = NO_OFFSET, NO_EPOCH
        if kind in {Kind.START, Kind.TRUNCATE}:
            state = self.state.partition(number, partition)
            end, epoch = state.end, state.epoch
        row = Row(
            kind,
            number,
            partition,
            base_offset,
            NO_OFFSET,
            epoch,
            end,
            epoch,
            origin,
            via,
            via_commit,
            self.now_ms,
            -1,
            0,
            0,
            0,
            self.commit,
            len(self.rows),
            data,
        )
        self._add(row)
        return row

    def add_plain(
        self, rows: Sequence[Row], ends: Mapping[PartitionKey, int], first: Iterable[Row], idempotent: Iterable[Row]
    ) -> None:
        """Append batches, the next rows of this commit, each of which `add_batch` would take and which do what
        `effects.continue_all` says.

        Raises:
            StorageFull: the disk's reserve is reached.
        """
        self.room_for_batches()
        self.batch_bytes += sum([len(row.batch) for row in rows])
        self.rows += rows
        effects.continue_all(self.state, ends, first, idempotent)

    def _add(self, row: Row) -> None:
        if row.kind == Kind.BATCH:
            self.batch_bytes += len(row.batch)
        elif row.kind == Kind.TRUNCATE and row.base_offset >= 0:
            self._forget_dead(row)
        # First of all, so that a row whose effect fails is taken back with what it had changed.
        self.rows.append(row)
        effects.replay(self.state, row)

    def _places_of(self, number: int, partition: int) -> Sequence[int]:
        """Where the batches of a partition stand among the rows. Most commits have nobody who asks."""
        for place in range(self._placed, len(self.rows)):
            row = self.rows[place]
            if row.kind == Kind.BATCH:
                self._batches_at.setdefault((row.topic, row.partition), []).append(place)
        self._placed = len(self.rows)
        return self._batches_at.get((number, partition), ())

    def _forget_dead(self, cut: Row) -> None:
        key = cut.topic, cut.partition
        self._cut_at[key] = min(cut.base_offset, self._cut_at.get(key, cut.base_offset))
        places = self._places_of(*key)
        if places:
            self._batches_at[key] = [at for at in places if self.rows[at].base_offset < cut.base_offset]

    def stored_at(self, number: int, partition: int, offset: int) -> StoredBatch | None:
        """The batch that holds an offset below the partition's end, in this commit or before it; None in a gap.

        Raises:
            NotLoaded: it is only on disk.
        """
        for place in self._places_of(number, partition):
            row = self.rows[place]
            if row.previous_end <= offset <= row.last_offset:
                return stored(row) if row.base_offset <= offset else None
        if self._cut_at and offset >= self._cut_at.get((number, partition), offset + 1):
            return None
        return self._find_stored(number, partition, offset)

    def require_stored(self, keys: Iterable[RowKey]) -> None:
        """Find out at once which of these rows are only on disk.

        Raises:
            NotLoaded: some rows are only on disk; it names all of them.
        """
        missing: list[RowKey] = []
        for key in keys:
            try:
                self.stored_at(*key)
            except NotLoaded as error:
                missing += error.keys
        if missing:
            raise NotLoaded(missing)
