"""What the sources of a stream were last heard to say, since this server started. It tells people how much a lost one
may have had that has not come."""

from __future__ import annotations

from typing import Final, NamedTuple

LINKS_REMEMBERED_MAX: Final = 1000
"""A source may give its link any number of names."""


class LastHeard(NamedTuple):
    """Of one source."""

    at_ms: int
    """When it last asked something or sent a frame, in milliseconds since 1970."""
    lacking: int
    """Commits that its logs had by its last frames, beyond what those brought."""


class HeardSources:
    """By the id of the source's stream."""

    def __init__(self) -> None:
        self._at: dict[bytes, int] = {}
        self._lacking: dict[bytes, dict[int, int]] = {}
        self._of_link: dict[bytes, bytes] = {}

    def note(self, source: bytes, at_ms: int) -> None:
        """It said something."""
        self._at[source] = at_ms

    def note_frame(self, source: bytes, shard: int, lacking: int, at_ms: int) -> None:
        """It brought a frame of one of its logs, in which are so many commits more."""
        self.note(source, at_ms)
        self._lacking.setdefault(source, {})[shard] = lacking

    def note_link(self, link: bytes, source: bytes) -> None:
        """It calls one of its links so. A rescan has a new name, so those of long ago are forgotten."""
        self._of_link.pop(link, None)
        self._of_link[link] = source
        if len(self._of_link) > LINKS_REMEMBERED_MAX:
            del self._of_link[next(iter(self._of_link))]

    def source_of(self, link: bytes) -> bytes | None:
        """Whose link it is; None if it has said nothing since the start."""
        return self._of_link.get(link)

    def of(self, source: bytes) -> LastHeard | None:
        """None: nothing since the start."""
        at_ms = self._at.get(source)
        return None if at_ms is None else LastHeard(at_ms, sum(self._lacking.get(source, {}).values()))

    def __bool__(self) -> bool:
        """Whether anyone was heard."""
        return bool(self._at)
