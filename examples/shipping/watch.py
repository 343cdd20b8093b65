"""How far links are, asked once a second: for the map, for the table of what moved, and for the picture at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from examples.ships.sites import Site, SiteFailed

EVERY_SECONDS = 1.0
Way = tuple[str, str]
"""From cluster to cluster, all streams together."""
Sent = tuple[Way, str]
"""A stream of a way."""


@dataclass(frozen=True, slots=True)
class Line:
    """What is known of a way, or of one of its streams, at a moment."""

    waiting: int
    """Records that its links have not brought yet; the replica may have them over others."""
    records: int
    size_bytes: int
    """So much has gone over it."""
    paused: bool


@dataclass(slots=True)
class Moved:
    """What went over a way in one chapter of the story; times are seconds since its beginning."""

    chapter: str
    way: Way
    first: float
    last: float
    records: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class Course:
    """All that was seen."""

    chapter: str = ""
    calls: dict[str, str] = field(default_factory=dict)
    """Of each ship, the port of its present or last call."""
    said: dict[Sent, Line] = field(default_factory=dict)
    """What was said last of each stream; where there is no answer, what was said before stays."""
    waiting: dict[Way, list[tuple[float, int]]] = field(default_factory=dict)
    moved: dict[tuple[str, Way], Moved] = field(default_factory=dict)

    def saw(self, seconds: float, said: Mapping[Sent, Line]) -> None:
        """Note what the clusters said."""
        for sent, line in said.items():
            before, way = self.said.get(sent, Line(0, 0, 0, False)), sent[0]
            records, size = line.records - before.records, line.size_bytes - before.size_bytes
            if size > 0:
                started = Moved(self.chapter, way, seconds, seconds)
                moved = self.moved.setdefault((self.chapter, way), started)
                moved.last = seconds
                moved.records += records
                moved.size_bytes += size
        self.said = {**self.said, **said}
        for way, line in self.shown.items():
            self.waiting.setdefault(way, []).append((seconds, line.waiting))

    @property
    def shown(self) -> dict[Way, Line]:
        """By way, without those of a ship's earlier calls: what waits there goes over the present one."""
        return {way: line for way, line in summed(self.said).items() if not self._is_past(way)}

    def _is_past(self, way: Way) -> bool:
        return any(self.calls.get(ship, port) != port for ship, port in (way, way[::-1]))


class Watch:
    """A thread that asks until it is told to stop."""

    def __init__(self, at: Mapping[str, Site], senders: Mapping[str, Sequence[str]]) -> None:
        self.course = Course()
        self._asked = [(at[cluster], stream) for cluster, streams in senders.items() for stream in streams]
        self._began = time.monotonic()
        self._client = httpx.Client(trust_env=False, timeout=10)
        self._turn = threading.Lock()
        self._failure: Exception | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """How it is now."""
        with self._turn:
            said = [each for site, stream in self._asked for each in _said(self._client, site, stream)]
            self.course.saw(time.monotonic() - self._began, dict(said))

    def stop(self) -> None:
        """End the thread.

        Raises:
            SiteFailed: it has ended before, so the course lacks what came then.
        """
        self._stopping.set()
        self._thread.join()
        self._client.close()
        if self._failure is not None:
            raise SiteFailed(f"the watch over the links has ended: {self._failure!r}") from self._failure

    def _run(self) -> None:
        try:
            while not self._stopping.wait(EVERY_SECONDS):
                self.look()
        except Exception as error:  # whatever it was: who stops the watch is told
            self._failure = error


def _said(client: httpx.Client, site: Site, stream: str) -> list[tuple[Sent, Line]]:
    """Of one stream, as its cluster says; nothing where the stream is not there yet, or the cluster has ended."""
    try:
        answer = client.get(f"{site.http}/rest/stream/replica/list", params={"path": stream}).json()
    except httpx.HTTPError:
        return []
    rows = answer.get("data", ()) if answer["status"] == "OK" else ()
    return [(((site.name, str(row["cluster"])), stream), line_of(row)) for row in rows]


def line_of(row: Mapping[str, Any]) -> Line:
    """A row of `stream replica list`."""
    return Line(row["putsPending"], row["recordsCopied"], row["bytesCopied"], row["paused"])


def summed(said: Mapping[Sent, Line]) -> dict[Way, Line]:
    """By way; it is paused if all of it is."""
    found: dict[Way, Line] = {}
    for (way, _), line in said.items():
        so_far = found.get(way, Line(0, 0, 0, True))
        found[way] = Line(
            so_far.waiting + line.waiting,
            so_far.records + line.records,
            so_far.size_bytes + line.size_bytes,
            so_far.paused and line.paused,
        )
    return found
