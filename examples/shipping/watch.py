"""How far links are, asked once a second: for the map, for the table of what moved, and for the picture at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from examples.ships.sites import Site

EVERY_SECONDS = 1.0
Way = tuple[str, str]
"""From cluster to cluster, all streams together."""


@dataclass(frozen=True, slots=True)
class Line:
    """What is known of a way at a moment."""

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
    lines: Mapping[Way, Line] = field(default_factory=dict)
    waiting: dict[Way, list[tuple[float, int]]] = field(default_factory=dict)
    moved: dict[tuple[str, Way], Moved] = field(default_factory=dict)

    def saw(self, seconds: float, lines: Mapping[Way, Line]) -> None:
        """Note what the clusters said."""
        for way, line in lines.items():
            self.waiting.setdefault(way, []).append((seconds, line.waiting))
            before = self.lines.get(way, Line(0, 0, 0, False))
            records, size = line.records - before.records, line.size_bytes - before.size_bytes
            if size > 0:
                started = Moved(self.chapter, way, seconds, seconds)
                moved = self.moved.setdefault((self.chapter, way), started)
                moved.last = seconds
                moved.records += records
                moved.size_bytes += size
        self.lines = {**self.lines, **lines}


class Watch:
    """A thread that asks until it is told to stop."""

    def __init__(self, at: Mapping[str, Site], senders: Mapping[str, Sequence[str]]) -> None:
        self.course = Course()
        self._asked = [(at[cluster], stream) for cluster, streams in senders.items() for stream in streams]
        self._began = time.monotonic()
        self._client = httpx.Client(trust_env=False, timeout=10)
        self._turn = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """How it is now."""
        with self._turn:
            rows = [row for site, stream in self._asked for row in _rows(self._client, site, stream)]
            self.course.saw(time.monotonic() - self._began, summed(rows))

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._stopping.wait(EVERY_SECONDS):
            self.look()


def _rows(client: httpx.Client, site: Site, stream: str) -> list[tuple[str, dict[str, Any]]]:
    """Of one stream, as its cluster says; none where the stream is not there yet, or the cluster has ended."""
    try:
        answer = client.get(f"{site.http}/rest/stream/replica/list", params={"path": stream}).json()
    except httpx.HTTPError:
        return []
    return [(site.name, row) for row in answer.get("data", ())] if answer["status"] == "OK" else []


def summed(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[Way, Line]:
    """By way; it is paused if all of it is."""
    found: dict[Way, Line] = {}
    for source, row in rows:
        way = (source, str(row["cluster"]))
        so_far = found.get(way, Line(0, 0, 0, True))
        found[way] = Line(
            so_far.waiting + row["putsPending"],
            so_far.records + row["recordsCopied"],
            so_far.size_bytes + row["bytesCopied"],
            so_far.paused and row["paused"],
        )
    return found
