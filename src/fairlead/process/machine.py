"""What the machine gives this process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

CGROUPS: Final = Path("/sys/fs/cgroup")
MEMBERSHIP: Final = Path("/proc/self/cgroup")
STATM: Final = Path("/proc/self/statm")


def memory_bytes(membership: Path = MEMBERSHIP, cgroups: Path = CGROUPS) -> int:
    """Memory that this process may use: the machine's, or the smallest limit of the control groups around it."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(membership, cgroups)])


def memory_part_bytes() -> int:
    """What one of the large uses of memory gets where no setting says otherwise: an eighth of the machine's."""
    return memory_bytes() // 8


def give_back_memory() -> None:
    """Give the system the memory that the C library keeps for what may come (glibc); may take some tenths of a s."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


def resident_bytes(statm: Path = STATM) -> int:
    """Memory of the machine that this process takes up; 0 where that is not known."""
    pages = _text(statm).split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0


@dataclass(frozen=True, slots=True)
class Allocated:
    """What the C library has of the system's memory."""

    used_bytes: int
    """What this process has asked for and not given back."""
    free_bytes: int
    """What it keeps for what may come, in its arenas."""


def allocated() -> Allocated:
    """As glibc says; zeros of another library."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        return Allocated(0, 0)
    ask.restype = _MallocInfo
    found = ask()
    return Allocated(found.uordblks + found.hblkhd, found.fordblks)


class _MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of malloc.h."""

    _fields_: ClassVar = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def _limits(membership: Path, cgroups: Path) -> Iterator[int]:
    for line in _text(membership).splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:  # version 2
            root, name = cgroups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = cgroups / "memory", "memory.limit_in_bytes"
        else:
            continue
        own = root / group.lstrip("/")
        for folder in (own, *own.parents):
            text = _text(folder / name).strip()
            if text.isdigit():  # else there is no such file, or it says "max"
                yield int(text)
            if folder == root:
                break


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
