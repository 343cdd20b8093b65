"""Applying rows that were asked for: the rest of partitions that another stream holds, and this one lacks.

In: a repair that no link brings, in the draft of a commit. Out: its rows, each by the same table as in a link's frame,
and what was refused. No position and no note of a link is written: whoever asked looks at the outcome, and asks again
from where the partition ends then. So a pull that ends anywhere leaves nothing behind but records that are in their
place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.applying.notes import Refusals
from fairlead.streamlog.applying.rows import FrameRows
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import GrantRun
from fairlead.streamlog.writing.draft import Draft

NO_LINK: Final = bytes(16)
"""Id of the link in frames that no link brings."""
NO_RUN: Final = GrantRun(0, 0)


@dataclass(frozen=True, slots=True)
class PulledRows:
    """What became of rows that were asked for."""

    appended: int
    """Records."""
    refused: Mapping[tuple[bytes, int], str]
    """By incarnation and partition, why a row of it has no place here."""


def apply_pulled(draft: Draft, frame: Frame, admission: Admission) -> PulledRows:
    """Apply rows of one repair, as far as their source may speak here.

    Raises:
        NotAllowed, StorageFull, CorruptBatch, NotLoaded: as `apply_frame`.
    """
    refusals = Refusals(draft, frame, admission)
    rows = FrameRows(draft, frame, admission, refusals)
    draft.require_stored(rows.overlapping())
    if any(row.kind == Kind.BATCH for row in frame.rows):
        draft.room_for_batches()
    for row in frame.rows:
        rows.apply(row)
    rows.finish()
    return PulledRows(rows.appended, {key: note.behind.reason for key, note in refusals.found.items()})
