"""How long records live at a site, and what must hold of that."""

from __future__ import annotations

from typing import NamedTuple

from fairlead.streamlog.values import PartitionState

TTL_MS = 10_000
"""Of every site's stream."""


class Held(NamedTuple):
    """A batch that a site has announced, and that is not cut off."""

    base_offset: int
    last_offset: int
    appended_at: int


def nothing_is_gone_too_early(
    where: str, state: PartitionState, before: int, held: list[Held], *, newest_ms: int
) -> None:
    """2: a record goes that its owner has deleted, or that is older than records live at this site. `before` is where
    the log began when that was looked at last, `newest_ms` the latest time that may be believed here."""
    for batch in held:
        first, end = max(batch.base_offset, before), min(batch.last_offset + 1, state.log_start)
        is_old = batch.appended_at + TTL_MS <= newest_ms
        assert first >= end or end <= state.deleted_to or is_old, (
            f"{where}: {first} to {end} are gone of {batch}, which is {newest_ms - batch.appended_at} ms old: {state}"
        )
