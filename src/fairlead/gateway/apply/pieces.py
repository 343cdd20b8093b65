"""A frame in parts: one for each shard of the replica, and each of these piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fairlead.model.errors import FairleadError, StorageUnavailable, another
from fairlead.streamlog.applying.admission import ANYBODY, Admission
from fairlead.streamlog.applying.frame import FrameOutcome, apply_frame
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.writing.draft import Draft

ApplyRequest = Callable[[Draft], FrameOutcome]


class _Chain:
    """The pieces of one frame in one shard: each is applied only if those before it are in the log, or in this very
    commit. Else a piece whose commit failed (a full disk) would be passed by the position of the last one."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._done = 0
        self._draft: Draft | None = None
        self._failed: FairleadError | None = None
        self._refused: FrameOutcome | None = None

    def request(self, place: int, piece: Frame) -> ApplyRequest:
        """The request that applies the piece at this place."""
        return lambda draft: self._apply(draft, place, piece)

    def _apply(self, draft: Draft, place: int, piece: Frame) -> FrameOutcome:
        if not self._stands(draft, place):
            if self._failed is not None:
                raise another(self._failed)
            raise StorageUnavailable("an earlier part of the frame was not written; it is sent again")
        if self._refused is not None:
            return self._refused
        try:
            outcome = apply_frame(draft, piece, self._admission)
        except FairleadError as error:
            self._failed = another(error)
            raise
        if outcome.refused_position is not None:
            self._refused = outcome
        self._done, self._draft = place + 1, draft
        return outcome

    def _stands(self, draft: Draft, place: int) -> bool:
        """A commit that failed gives its number to the next one; one without rows is none and cannot fail."""
        if self._failed is not None or self._done != place:
            return False
        before = self._draft
        return before is None or before is draft or before.commit < draft.commit or not before.rows


def in_pieces(frame: Frame, rows_max: int, admission: Admission = ANYBODY) -> list[ApplyRequest]:
    """Requests that apply a frame, each of at most this many rows."""
    found = pieces(frame, rows_max)
    chain = _Chain(admission)
    return [chain.request(place, piece) for place, piece in enumerate(found)]


def pieces(frame: Frame, rows_max: int) -> list[Frame]:
    """A frame as several of at most this many rows; only the last one moves the position, or ends the repair."""
    if len(frame.rows) <= rows_max:
        return [frame]
    repair = None if frame.repair is None else replace(frame.repair, last=False)
    starts = range(0, len(frame.rows), rows_max)
    chunks = [frame.rows[start : start + rows_max] for start in starts]
    first = [replace(frame, to_commit=frame.from_commit, rows=chunk, repair=repair) for chunk in chunks[:-1]]
    return [*first, replace(frame, rows=chunks[-1])]


def split(frame: Frame, shards: int, place_of: Callable[[bytes, str], int]) -> list[tuple[int, Frame]]:
    """The part of a frame for each shard of the replica; every shard gets one, for its position. A repair, which moves
    no position, goes only where its topic lives. `place_of`: the shard of an incarnation and name."""
    if shards == 1:
        return [(0, frame)]
    home = {number: place_of(topic.incarnation, topic.name) for number, topic in frame.topics.items()}
    if frame.repair is not None:
        return [(home.get(frame.repair.number, 0), frame)]
    return [
        (shard, replace(frame, rows=[row for row in frame.rows if home.get(row.topic, 0) == shard]))
        for shard in range(shards)
    ]
