"""What the machine gives this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CGROUPS: Final = Path("/sys/fs/cgroup")
MEMBERSHIP: Final = Path("/proc/self/cgroup")


def memory_bytes(membership: Path = MEMBERSHIP, cgroups: Path = CGROUPS) -> int:
    """Memory that this process may use: the machine's, or the smallest limit of the control groups around it."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(membership, cgroups)])


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
