"""Applying a frame: the rows of a source's log become rows here, by the table of `docs/formats/apply.md`.

In: a frame, evaluated while a commit is sealed. Out: rows, the link's position and its notes in the same commit, so a
position is never recorded before the data. Always true: applying twice changes nothing; a position never goes back and
never skips. A row that does not fit is noted for its partition (*behind*: a repair brings it again; or a conflict: it
is set aside) and holds up no other partition.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.streamlog.applying.admission import ANYBODY, Admission
from fairlead.streamlog.applying.rows import FrameRows
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.payloads import BehindPayload, PositionPayload
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import LinkPosition
from fairlead.streamlog.writing.draft import Draft


@dataclass(frozen=True, slots=True)
class FrameOutcome:
    """What became of a frame."""

    position: int
    """Commit below which everything of the slice is applied or noted, once the frame's commit is durable."""
    appended: int = 0
    """Records."""
    duplicates: int = 0
    """Records that were here already."""
    behind: int = 0
    """Rows refused for their partition, which is noted behind."""
    conflicts: int = 0
    """Rows of topics that are set aside."""
    refused_position: int | None = None
    """The frame was not applied at all: it begins beyond this recorded position, or its run is too old."""
    reason: str = ""
    """Why it was refused: `from` or `run`."""


def apply_frame(draft: Draft, frame: Frame, admission: Admission = ANYBODY) -> FrameOutcome:
    """Apply a frame to the shard of the draft, as far as its source may speak here.

    Raises:
        NotAllowed: the source brings more than it may.
        StorageFull: the frame brings batches and the disk's reserve is reached; nothing of it was applied.
        CorruptBatch: the frame does not name the topics of its rows.
        NotLoaded: rows on disk must be compared with the frame; see `Draft`.
    """
    key = (frame.link, frame.shard, frame.slice)
    recorded = draft.state.position(key)
    at = 0 if recorded is None else recorded.commit
    reason = _refusal(frame, recorded)
    if reason:
        return FrameOutcome(at, refused_position=at, reason=reason)
    rows = FrameRows(draft, frame, admission)
    draft.require_stored(rows.overlapping())
    if any(row.kind == Kind.BATCH for row in frame.rows):
        draft.room_for_batches()
    for row in frame.rows:
        rows.apply(row)
    if frame.repair is not None:
        rows.finish_repair(frame.repair, at)
    elif frame.to_commit > at:
        at = frame.to_commit
        _record(draft, frame)
    return FrameOutcome(at, rows.appended, rows.duplicates, rows.notes.behind, rows.notes.conflicts)


def _refusal(frame: Frame, recorded: LinkPosition | None) -> str:
    if frame.repair is not None:
        return ""
    if recorded is not None and frame.run < recorded.run:
        return "run"
    return "from" if frame.from_commit > (0 if recorded is None else recorded.commit) else ""


def _record(draft: Draft, frame: Frame) -> None:
    payload = PositionPayload(
        frame.link,
        frame.shard,
        frame.slice,
        frame.to_commit,
        frame.epoch_id,
        frame.run.epoch,
        frame.run.counter,
    )
    draft.add_control(Kind.POSITION, payload)


def forget_link(draft: Draft, link: bytes) -> None:
    """Forget positions and notes of a link: it was removed, or is to read its source's whole log again."""
    for (shard, slice), position in draft.state.positions(link).items():
        run = position.run
        payload = PositionPayload(link, shard, slice, None, position.epoch_id, run.epoch, run.counter)
        draft.add_control(Kind.POSITION, payload)
    for (_, incarnation, partition), note in draft.state.notes(link).items():
        cleared = BehindPayload(link, note.behind.topic, incarnation, partition, 0, None, draft.now_ms)
        draft.add_control(Kind.BEHIND, cleared)
