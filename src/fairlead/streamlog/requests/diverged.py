"""What a cut has made dead and keeps goes into a topic of its own: the diverged topic, at its own offsets and epochs.

    tails     what is to be copied
    read      the batches of some tails, in one pass over the log; blocking
    append    a request to the log of the diverged topic: makes it if need be, and adds them
    finish    a request to it: no other partition was cut
    end_keep  a request to the log that was cut, once nothing is lacking (`cuts`)

Always true: every holder of some of the tail makes the same topic, by its incarnation, so copies that meet are one; a
batch is added where the topic ends, so whoever begins again after a crash goes on there; the tail stays on disk until
the mark of the cut is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from fairlead.model.errors import AlreadyExists, Missing
from fairlead.model.names import fitting
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.objects.by_partition import Offsets
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.objects.dead import DeadRows
from fairlead.streamlog.ownership.histories import joined_since
from fairlead.streamlog.payloads import BEGINS_HERE, History, StartPayload
from fairlead.streamlog.reading.announced import AnnouncedLog
from fairlead.streamlog.reading.slices import read_kept
from fairlead.streamlog.requests.cuts import restored_incarnation
from fairlead.streamlog.requests.topics import put_topic, resolve_others
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import Cut, PartitionKey, PartitionState, Topic
from fairlead.streamlog.writing.draft import Draft

COPIED_BYTES: Final = 4_000_000
"""About so much of a tail is copied in one commit."""


PARENT: Final = "parent"
"""Field of the TOPIC row of a diverged topic: incarnation of the topic that was cut. Few topics have it, so it is kept
with the fields that only some programs know."""


class Tail(NamedTuple):
    """What a cut of a partition keeps."""

    topic: Topic
    partition: int
    cut: Cut
    incarnation: bytes
    """Of the diverged topic."""

    @property
    def key(self) -> tuple[int, int, bytes]:
        """What is copied as one."""
        return self.topic.number, self.partition, self.incarnation

    @property
    def epoch(self) -> int:
        """The last of the tail."""
        return self.cut.history[-1][0] if self.cut.history else 0

    def has(self, row: Row) -> bool:
        """Whether its cut makes a batch of its partition dead."""
        return row.base_offset >= self.cut.offset and (row.commit, row.row) < (self.cut.commit, self.cut.row)


def tails(state: ShardState) -> Iterator[Tail]:
    """What is still to be copied. Cuts may come and go meanwhile."""
    for number, partition in list(state.kept_partitions):
        topic = state.topic(number)
        if topic is not None:
            kept = ((cut, cut.keep) for cut in state.cuts_of(number, partition))
            yield from (Tail(topic, partition, cut, keep) for cut, keep in kept if keep is not None)


def partitions_kept(state: ShardState, tail: Tail) -> set[int]:
    """The partitions of which something is still to be copied into the tail's diverged topic."""
    number = tail.topic.number
    partitions = range(state.partition_count(number))
    return {each for each in partitions if any(cut.keep == tail.incarnation for cut in state.cuts_of(number, each))}


def read(
    log: AnnouncedLog, tails: Sequence[Tail], copied_to: Callable[[Tail], int]
) -> Iterator[list[tuple[Tail, list[Row]]]]:
    """The batches of all these tails of a log, about `COPIED_BYTES` at a time: topic by topic, those of each tail in
    their order. Each object is read once, however many tails lie in it. `copied_to` says where the copy of a tail ends;
    what ends below is left out. Blocking.

    Raises:
        Damaged, Missing, StorageUnavailable
    """
    wanted = _Wanted(log.state, tails, copied_to)
    at = 0
    while True:
        objects = [each for each in log.locate(wanted.slices) if at < each.end and each.first < wanted.end]
        try:
            for columns in read_kept(log.storage, objects, wanted.dead, wanted.copied, COPIED_BYTES):
                at = columns.first
                yield wanted.by_tail(columns)
            return
        except Missing as error:
            if log.needs(error.name):
                raise
            # It was merged, and deleted after the grace: what stands for it now has the same rows.


class _Wanted:
    """Which batches of a log some tails are."""

    def __init__(self, state: ShardState, tails: Sequence[Tail], copied_to: Callable[[Tail], int]) -> None:
        self._tails: dict[PartitionKey, list[Tail]] = {}
        for tail in tails:
            self._tails.setdefault((tail.topic.number, tail.partition), []).append(tail)
        cuts = [cut for key in self._tails for cut in state.dead_in(*key)]
        kept = [(*tail.key[:2], tail.cut.offset, tail.cut.commit, tail.cut.row) for tail in tails]
        self.dead = DeadRows(cuts, kept)
        self.copied = Offsets({key: min(map(copied_to, found)) for key, found in self._tails.items()}, 0)
        self.slices = {slice_of_number(number) for number, _ in self._tails}
        self.end = max((tail.cut.commit + 1 for tail in tails), default=0)
        """End of the commits in which they lie."""

    def by_tail(self, columns: Columns) -> list[tuple[Tail, list[Row]]]:
        """Batches that are kept, those that follow one another in a tail together."""
        return [
            (tail, [row._replace(batch=bytes(row.batch)) for row in rows])
            for tail, rows in groupby(columns.rows(), self._tail_of)
        ]

    def _tail_of(self, row: Row) -> Tail:
        """That of the first cut that made it dead."""
        return next(tail for tail in self._tails[row.topic, row.partition] if tail.has(row))


def topic_of(tail: Tail, state: ShardState, name: str, owner: bytes, owner_at: str) -> Topic:
    """The diverged topic; `owner` is the tail's. Its epoch is the tail's last one, and began where it did in the topic.

    The version grows with the partitions, so that of two holders the one that knows more of them makes the newer row.
    """
    partitions = range(tail.topic.partitions)
    since = tuple(_beginning(tail, state, partition) for partition in partitions) if tail.epoch else ()
    return Topic(
        number=-1,
        name=name,
        incarnation=tail.incarnation,
        partitions=tail.topic.partitions,
        owner=owner,
        epoch=tail.epoch,
        configs=tail.topic.configs,
        version=tail.topic.partitions,
        home=_home(tail, name),
        owner_at=owner_at,
        since=since,
        ext={PARENT: tail.topic.incarnation.hex()},
    )


def _home(tail: Tail, name: str) -> str:
    """The name that the diverged topic has where the tail's topic has the name of its owner: holders that know the
    topic by different names agree on it."""
    here = tail.topic.name
    return fitting(tail.topic.home, name.removeprefix(here)) if name.startswith(here) else name


def parent_of(topic: Topic) -> bytes | None:
    """Incarnation of the topic whose tail this one keeps; None of other topics."""
    try:
        return bytes.fromhex(str(topic.ext[PARENT]))
    except (KeyError, ValueError):
        return None


def _beginning(tail: Tail, state: ShardState, partition: int) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Where the tail's last epoch began in a partition, and the history below that."""
    cuts = state.cuts_of(tail.topic.number, partition)
    cut = next((cut for cut in cuts if cut.keep == tail.incarnation), None)
    history = cut.history if cut is not None else state.partition(tail.topic.number, partition).history
    first = next((first for epoch, first in history if epoch == tail.epoch), None)
    return (0, ()) if first is None else (first, tuple(entry for entry in history if entry[0] < tail.epoch))


def append(draft: Draft, made: Topic, tail: Tail, rows: Sequence[Row]) -> int:
    """A request: add batches of a tail to the diverged topic, which is `made` if it is not here yet; answers where its
    partition ends now. Those that are there are passed over. If it was deleted, nothing is done: nobody wants it.

    Raises:
        AlreadyExists: another topic has the name.
        StorageFull
    """
    if draft.state.tombstone(tail.incarnation) is not None:
        return rows[-1].last_offset + 1
    topic = draft.state.by_incarnation(tail.incarnation) or _made(draft, made, rows[0])
    since = joined_since(topic.since, made.since)
    if since is None:
        since = topic.since  # what was said of this partition before is shown as a conflict elsewhere, and kept here
    if tail.partition >= topic.partitions or since != topic.since:
        topic = topic._replace(
            partitions=max(topic.partitions, made.partitions), version=max(topic.version, made.version), since=since
        )
        put_topic(draft, topic, made.owner, rows[0].via, rows[0].via_commit)
    number, partition = topic.number, tail.partition
    for row in rows:
        end = draft.state.partition(number, partition).end
        begins = max(tail.cut.offset, row.previous_end)
        if row.base_offset >= end:
            if begins > end:
                _begin(draft, topic, partition, begins, tail.cut.history, end or None, row)
            draft.add_copy(row, number, origin=row.origin, via=row.via, via_commit=row.via_commit)
    return draft.state.partition(number, partition).end


def _made(draft: Draft, made: Topic, row: Row) -> Topic:
    if draft.state.by_name(made.name) is not None:
        raise AlreadyExists(f"topic {made.name} exists")
    topic = made._replace(number=draft.state.next_number(made.name))
    put_topic(draft, topic, made.owner, row.via, row.via_commit)
    resolve_others(draft, topic)
    return topic


def finish(draft: Draft, tail: Tail) -> None:
    """A request, once no tail of the diverged topic is left to be copied: a partition of which nothing was cut off
    begins, and ends, where the tail's epoch began there. Whoever gets the topic would wait for what is below."""
    topic = draft.state.by_incarnation(tail.incarnation)
    for partition, (start, history) in enumerate(topic.since if topic is not None else ()):
        if topic is not None and draft.state.partition(topic.number, partition).end < start:
            _begin(draft, topic, partition, start, history, None)


def _begin(
    draft: Draft,
    topic: Topic,
    partition: int,
    offset: int,
    history: History,
    gap_from: int | None,
    row: Row | None = None,
) -> None:
    """The START row where a partition begins, or goes on behind a gap. What is below the cut is in the topic that was
    cut; of the tail too some may have expired, or have never been here. It comes from where the tail's `row` did."""
    below = PartitionState(0, offset, -1, history).cut_at(offset)
    draft.add_control(
        Kind.START,
        StartPayload(BEGINS_HERE, offset, below.history, gap_from, epoch=topic.epoch),
        number=topic.number,
        partition=partition,
        base_offset=offset,
        origin=topic.owner if row is None else row.origin,
        via=None if row is None else row.via,
        via_commit=-1 if row is None else row.via_commit,
    )


def names(tail: Tail, cluster: str) -> Iterator[str]:
    """Names for the diverged topic, best first; `cluster` is that of the tail's owner. The last is nobody else's. The
    first is what other sites may call another tail of that epoch, if this one was written after a restore."""
    name = f"{tail.topic.name}.diverged.{cluster}.{tail.epoch}"
    restored = restored_incarnation(tail.topic.incarnation, tail.epoch, tail.cut.by_epoch)
    ends = ("", f"-{tail.cut.by_epoch}", f"-{tail.incarnation.hex()}")
    for end in ends[tail.incarnation == restored :]:
        yield fitting(name, end)


def owner_of(tail: Tail, rows: Iterable[Row]) -> bytes:
    """Id of the stream that owns the tail: the one that wrote it."""
    return next((row.origin for row in rows if row.origin is not None), tail.topic.owner)
