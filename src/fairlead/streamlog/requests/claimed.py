"""Which records of a tail stand in a topic already: what lets a claim bring each of them once.

A batch that a claim appends says in its producer fields which batch of which tail it is (`tail_id`, and the offset that
it had there as sequence number). Whoever appends it, the claim at the owner or a frame at a copy, notes that in the
same commit in a STATE row, which stays when the batch expires. So the note is wherever the batch is, and a later owner
knows what was claimed before.

Always true: a record counts as claimed as long as it is in the topic's history. A note tells the epoch and the offsets
at which it stands; what a cut made dead, the epoch history does not have any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

from fairlead.model.errors import NotAllowed
from fairlead.protocol.batch import NO_PRODUCER, producer_of
from fairlead.streamlog.payloads import StatePayload
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.values import PartitionState
from fairlead.streamlog.writing.draft import Draft

SEQUENCES: Final = 2**31
"""So many sequence numbers there are; after the last one they begin again at 0."""
TAILS_MAX: Final = 100
"""Of so many tails a partition knows what it has; the oldest are forgotten, since a stranger's frames may name any."""
PIECES_MAX: Final = 10_000
"""Pieces of all tails of a partition, which a STATE row must hold. A claim makes one for 4 MB, if others write
meanwhile."""


class Piece(NamedTuple):
    """Records of a tail that stand in a topic side by side."""

    epoch: int
    """Topic epoch in which they were appended."""
    base: int
    """Offset of the first in the topic."""
    sequence: int
    """Offset of the first in the tail, modulo `SEQUENCES`."""
    length: int
    """Offsets that they take, as many here as there."""

    def holds(self, sequence: int, length: int) -> bool:
        """Whether these records are among them."""
        return (sequence - self.sequence) % SEQUENCES + length <= self.length


class Passed(NamedTuple):
    """All of a tail below the offset `to` was dealt with when the topic ended at `end`, with a record of `epoch`."""

    to: int
    epoch: int
    end: int


@dataclass(slots=True)
class OfTail:
    """What of one tail stands in a partition."""

    pieces: list[Piece] = field(default_factory=list)
    passed: Passed | None = None
    """Where a claim goes on; only where one was made."""

    def add(self, piece: Piece) -> None:
        """Note records that were appended."""
        last = self.pieces[-1] if self.pieces else None
        if last is not None and _goes_on(last, piece):
            self.pieces[-1] = last._replace(length=last.length + piece.length)
        else:
            self.pieces.append(piece)

    def holds(self, sequence: int, length: int) -> bool:
        """Whether these records stand there."""
        return any(piece.holds(sequence, length) for piece in reversed(self.pieces))

    def forget_below(self, start: int) -> None:
        """Forget records that the tail, which begins at `start`, does not have any more: a pending topic is claimed
        again and again. They are kept while there are few, for the sake of diverged topics that have some of them; but
        not until numbers come again."""
        many = len(self.pieces) > PIECES_MAX // 2

        def counts(piece: Piece) -> bool:
            below = (start - piece.sequence - piece.length) % SEQUENCES
            return below >= SEQUENCES // 2 or not (many or below > SEQUENCES // 4)

        self.pieces = [piece for piece in self.pieces if counts(piece)]

    def next_offset(self, start: int) -> int:
        """The offset of a tail which begins at `start` that nothing from there on is known of."""
        ends = [start + (each.sequence - start) % SEQUENCES + each.length for each in self.pieces]
        return max([start, *ends] if self.passed is None else [start, self.passed.to, *ends])


def _goes_on(last: Piece, piece: Piece) -> bool:
    follows = (last.sequence + last.length) % SEQUENCES == piece.sequence
    return follows and (last.epoch, last.base + last.length) == (piece.epoch, piece.base)


class States(Protocol):
    """Where partitions stand and what topics hold: the state of a shard, or the overlay of a draft."""

    def partition(self, number: int, partition: int) -> PartitionState: ...

    def topic_state(self, number: int, key: str) -> Any: ...


def tail_id(incarnation: bytes, partition: int) -> int:
    """What names a partition of a diverged topic in the producer id of the batches claimed from it. It is negative, as
    no producer's is: to Kafka's clients such a batch has none."""
    digest = sha256(incarnation + partition.to_bytes(4, "big")).digest()
    return -2 - (int.from_bytes(digest[:8], "big") >> 2)


def is_claimed(batch: bytes | memoryview) -> bool:
    """Whether a claim has made this batch."""
    return producer_of(batch)[0] < NO_PRODUCER


def claimed(states: States, number: int, partition: int) -> dict[int, OfTail]:
    """By `tail_id`, what stands in a partition now."""
    value = states.topic_state(number, _key(partition))
    if value is None:
        return {}
    state = states.partition(number, partition)
    ends = _ends(state)
    return {int(id, 16): _live(each, state, ends) for id, each in value.items()}


def _ends(state: PartitionState) -> dict[int, int]:
    """Epoch → the offset where it ends in the partition's history."""
    followed = {epoch: first for (epoch, _), (_, first) in pairwise(state.history)}
    return {epoch: followed.get(epoch, state.end) for epoch, _ in state.history}


def _live(value: Mapping[str, Any], state: PartitionState, ends: Mapping[int, int]) -> OfTail:
    pieces = []
    for piece in (Piece(*each) for each in value["pieces"]):
        length = min(piece.length, ends.get(piece.epoch, 0) - piece.base)
        if length > 0:
            pieces.append(piece._replace(length=length))
    passed = None if value["passed"] is None else Passed(*value["passed"])
    if passed is not None and passed.end and passed.end > ends.get(passed.epoch, 0):
        passed = None
    return OfTail(pieces, passed)


def put_claimed(draft: Draft, number: int, partition: int, tails: Mapping[int, OfTail]) -> None:
    """Note what stands in a partition now."""
    kept = {id: each for id, each in tails.items() if each.pieces or each.passed is not None}
    value = {f"{id:x}": {"pieces": each.pieces, "passed": each.passed} for id, each in kept.items()}
    draft.add_control(Kind.STATE, StatePayload(_key(partition), value or None), number=number)


def _key(partition: int) -> str:
    return f"claimed {partition}"


def check_room(tails: Mapping[int, OfTail], id: int, name: str) -> None:
    """Check that one more piece of a tail can be noted without forgetting another.

    Raises:
        NotAllowed
    """
    if (id not in tails and len(tails) >= TAILS_MAX) or _pieces(tails) >= PIECES_MAX:
        raise NotAllowed(
            f"topic {name} cannot note more of what was claimed; claim into another topic (-into), and copy from there"
        )


def note_claimed(draft: Draft, rows: Iterable[Row]) -> None:
    """Note those of the BATCH rows that this draft has appended which a claim made elsewhere."""
    by_partition: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        by_partition.setdefault((row.topic, row.partition), []).append(row)
    for (number, partition), found in by_partition.items():
        if draft.state.topic(number) is not None:
            _note(draft, number, partition, found)


def _note(draft: Draft, number: int, partition: int, rows: Sequence[Row]) -> None:
    tails = claimed(draft.state, number, partition)
    for row in rows:
        id, _, sequence = producer_of(row.batch)
        tails.setdefault(id, OfTail()).add(piece_of(row, sequence))
    while len(tails) > TAILS_MAX:
        del tails[next(iter(tails))]
    for each in tails.values():
        del each.pieces[: max(_pieces(tails) - PIECES_MAX, 0)]
    put_claimed(draft, number, partition, tails)


def piece_of(row: Row, sequence: int) -> Piece:
    """A batch that stands in the topic."""
    return Piece(row.epoch, row.base_offset, sequence, row.last_offset - row.base_offset + 1)


def _pieces(tails: Mapping[int, OfTail]) -> int:
    return sum(len(each.pieces) for each in tails.values())
