"""What processes use, read from /proc: processor time, memory, bytes to and from disks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Generic, NamedTuple, Self, TypeVar

from tests.support.sites import descendants

TICK = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_GONE = (FileNotFoundError, ProcessLookupError)


class Io(NamedTuple):
    """Bytes that went to and came from storage; pages count as written when they become dirty."""

    read: int
    written: int


class Sample(NamedTuple):
    """One look at some processes."""

    at: float
    """time.monotonic()"""
    cpu_seconds: float
    memory_bytes: int


def cpu_seconds(pids: Iterable[int]) -> float:
    """Processor time, user and system, of processes and of all that they started, ended children included.

    It only grows, so that a difference of two looks is what was used in between, if the processes themselves live on.
    """
    return sum(parse_cpu_seconds(text) for text in _read(_family(pids), "stat"))


def parse_cpu_seconds(stat: str) -> float:
    """Own time and that of reaped children from the text of /proc/<pid>/stat; the name in it may hold anything."""
    fields = stat.rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / TICK


def rss_bytes(pids: Iterable[int]) -> int:
    """Memory of processes and of all that they started: a page that n of them share counts 1/n for each.

    Where the proportional size may not be read, the resident size stands in for it.
    """
    return sum(_memory(pid, "Pss") for pid in _family(pids))


def own_bytes(pids: Iterable[int]) -> int:
    """The same without mapped files, whose share changes with whoever else maps them."""
    return sum(_memory(pid, "Pss_Anon") for pid in _family(pids))


def _memory(pid: int, kind: str) -> int:
    try:
        return parse_pss(Path(f"/proc/{pid}/smaps_rollup").read_text(), kind)
    except PermissionError:
        return sum(int(text.split()[1]) * PAGE_BYTES for text in _read([pid], "statm"))
    except _GONE:
        return 0


def parse_pss(smaps_rollup: str, kind: str = "Pss") -> int:
    """Proportional set size in bytes, all or of one kind, from the text of /proc/<pid>/smaps_rollup."""
    return sum(int(line.split()[1]) * 1024 for line in smaps_rollup.splitlines() if line.startswith(f"{kind}:"))


def io_bytes(pids: Iterable[int]) -> Io:
    """Storage traffic of processes and of all that they started, ended children included."""
    found = [parse_io(text) for text in _read(_family(pids), "io")]
    return Io(sum(io.read for io in found), sum(io.written for io in found))


def asked_bytes(pids: Iterable[int]) -> int:
    """What these processes alone have read by system calls, from the page cache too; of sockets, next to nothing."""
    return sum(parse_asked(text) for text in _read(pids, "io"))


def parse_asked(text: str) -> int:
    """That figure from the text of /proc/<pid>/io."""
    return next(int(line.split(":")[1]) for line in text.splitlines() if line.startswith("rchar:"))


def parse_io(text: str) -> Io:
    """The two figures from the text of /proc/<pid>/io."""
    figures = {name: int(value) for name, value in (line.split(":") for line in text.splitlines())}
    return Io(figures["read_bytes"], figures["write_bytes"])


def _family(pids: Iterable[int]) -> set[int]:
    """Each process once, also if one of those named has started another of them."""
    found = set(pids)
    for pid in tuple(found):
        found.update(descendants(pid))
    return found


def _read(pids: Iterable[int], name: str) -> Iterator[str]:
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/{name}").read_text()
        except _GONE:
            continue
        yield text


T = TypeVar("T")


class Looks(Generic[T]):
    """Looks again and again in a thread, while the `with` block runs; the first look and the last are exact."""

    def __init__(self, look: Callable[[], T], every_seconds: float) -> None:
        self.samples: list[T] = []
        self._look = look
        self._every_seconds = every_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="looks", daemon=True)

    def __enter__(self) -> Self:
        self.samples.append(self._look())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.samples.append(self._look())

    def _run(self) -> None:
        while not self._stop.wait(self._every_seconds):
            self.samples.append(self._look())


class Sampler(Looks[Sample]):
    """Looks at processes.

    A look costs some milliseconds a gigabyte of memory: the kernel walks the page tables.
    """

    def __init__(
        self,
        pids: Callable[[], Iterable[int]],
        every_seconds: float = 1.0,
        memory: Callable[[Iterable[int]], int] = rss_bytes,
    ) -> None:
        def look() -> Sample:
            known = tuple(pids())
            return Sample(time.monotonic(), cpu_seconds(known), memory(known))

        super().__init__(look, every_seconds)

    @property
    def seconds(self) -> float:
        """Between the first and the last look."""
        return self.samples[-1].at - self.samples[0].at

    @property
    def cpu_seconds(self) -> float:
        """Processor time that was used between the first and the last look."""
        return self.samples[-1].cpu_seconds - self.samples[0].cpu_seconds

    @property
    def memory_bytes_max(self) -> int:
        return max(sample.memory_bytes for sample in self.samples)
