"""Applying a frame: the rows of a source's log become rows here, by the table of `docs/formats/apply.md`.

In: a frame, evaluated while a commit is sealed. Out: rows, the link's position and its notes in the same commit, so a
position is never recorded before the data. Always true: applying twice changes nothing; a position never goes back and
never skips. A row that does not fit is noted for its partition (*behind*: a repair brings it again; or a conflict: it
is set aside) and holds up no other partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from fairlead.streamlog.applying.admission import ANYBODY, Admission
from fairlead.streamlog.applying.notes import LinkNotes, has_read_all
from fairlead.streamlog.applying.outdated import note_outdated
from fairlead.streamlog.applying.rows import FrameRows
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.numbers import mask_of, slices_of_mask
from fairlead.streamlog.objects.columns import RowsOf
from fairlead.streamlog.payloads import BehindPayload, PositionPayload
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.state.effects import Note, NoteKey
from fairlead.streamlog.values import LinkPosition
from fairlead.streamlog.writing.draft import Draft

NOTES_AT_ONCE: Final = 1_000
"""Of those that are forgotten: more take several commits."""


@dataclass(frozen=True, slots=True)
class FrameOutcome:
    """What became of a frame."""

    positions: Mapping[int, int]
    """By slice, the commit below which everything of it is applied or noted, once the frame's commit is durable."""
    appended: int = 0
    """Records."""
    duplicates: int = 0
    """Records that were here already."""
    superseded: int = 0
    """Records of an owner of before, which the topic's present owner did not have; dropped, with no note."""
    outdated: frozenset[int] = frozenset()
    """Numbers here of the topics of which such records came, or another row of such an owner: the source may not have
    heard of the present one, and is told until it says so; see `outdated`."""
    behind: int = 0
    """Rows refused for their partition, which is noted behind, and partitions that are noted so without one."""
    conflicts: int = 0
    """Rows of topics that are set aside."""
    cursors: int = 0
    """Cursors of other sites that are newer than what was known of them."""
    refused_position: int | None = None
    """The frame was not applied at all: it begins beyond this position, the lowest recorded of its slices, or its run
    is too old for one of them."""
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
    recorded = _recorded(draft, frame)
    positions = {each: 0 if found is None else found.commit for each, found in recorded.items()}
    reason = _refusal(frame, recorded.values())
    if reason:
        return FrameOutcome(positions, refused_position=min(positions.values()), reason=reason)
    rows = FrameRows(draft, frame, admission)
    if _brings_batches(frame):
        draft.room_for_batches()
    rows.apply_all()
    rows.finish()
    note_outdated(draft, frame.source, rows.outdated)
    if frame.repair is not None:
        rows.finish_repair(frame.repair)
    else:
        _record(draft, frame, positions)
    return FrameOutcome(
        positions,
        rows.appended,
        rows.duplicates,
        rows.superseded,
        rows.outdated,
        rows.notes.behind,
        rows.notes.conflicts,
        rows.cursors,
    )


def _brings_batches(frame: Frame) -> bool:
    rows = frame.rows
    return rows.has(Kind.BATCH) if isinstance(rows, RowsOf) else any(row.kind == Kind.BATCH for row in rows)


def _recorded(draft: Draft, frame: Frame) -> dict[int, LinkPosition | None]:
    """By slice of the frame, where its link stands."""
    return {each: draft.state.position((frame.link, frame.shard, each)) for each in slices_of_mask(frame.slices)}


def _refusal(frame: Frame, recorded: Iterable[LinkPosition | None]) -> str:
    """Why nothing of the frame may be applied; empty if all may. Its slices may stand at different commits: the frame
    has every row of each from `from_commit` on, and those that a slice has already are dropped one by one."""
    if frame.repair is not None:
        return ""
    known = list(recorded)
    if any(each is not None and frame.run < each.run for each in known):
        return "run"
    return "from" if any(frame.from_commit > (0 if each is None else each.commit) for each in known) else ""


def _record(draft: Draft, frame: Frame, positions: dict[int, int]) -> None:
    """One row for all slices that the frame brings further."""
    further = [each for each, at in positions.items() if frame.to_commit > at]
    if further:
        positions.update(dict.fromkeys(further, frame.to_commit))
        run = frame.run
        payload = PositionPayload(
            frame.link, frame.shard, mask_of(further), frame.to_commit, frame.epoch_id, run.epoch, run.counter
        )
        draft.add_control(Kind.POSITION, payload)


def has_note(state: Notes, frame: Frame) -> bool:
    """Whether there is a note on the partition that a frame repairs."""
    return _note(state, frame) is not None


def end_note(draft: Draft, frame: Frame) -> None:
    """End the note on a partition, by the last frame of a repair that has gone to another shard, since the topic is
    there: what is lacking still is noted there. What this shard has passed since may not have been read."""
    repair, note = frame.repair, _note(draft.state, frame)
    if repair is None or note is None or note.behind.conflict:
        return
    if has_read_all(draft, frame, repair):
        LinkNotes(draft, frame, ANYBODY).clear(note.behind)


class Notes(Protocol):
    """What keeps them."""

    def note(self, key: NoteKey) -> Note | None: ...


def _note(state: Notes, frame: Frame) -> Note | None:
    repair = frame.repair
    named = None if repair is None else frame.topics.get(repair.number)
    return None if repair is None or named is None else state.note((frame.link, named.incarnation, repair.partition))


def forget_link(draft: Draft, link: bytes) -> bool:
    """Forget positions and notes of a link: it was removed, or is to read its source's whole log again. Many notes take
    several commits; True while there are more."""
    known = draft.state.positions(link)
    for shard in sorted({shard for shard, _ in known}):
        slices = [each for at, each in known if at == shard]
        last = known[shard, slices[0]]
        payload = PositionPayload(link, shard, mask_of(slices), None, last.epoch_id, last.run.epoch, last.run.counter)
        draft.add_control(Kind.POSITION, payload)
    notes = draft.state.notes(link)
    for (_, incarnation, partition), note in islice(notes.items(), NOTES_AT_ONCE):
        cleared = BehindPayload(link, note.behind.topic, incarnation, partition, 0, None, draft.now_ms)
        draft.add_control(Kind.BEHIND, cleared)
    return len(notes) > NOTES_AT_ONCE
