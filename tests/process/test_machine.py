"""Memory is what the machine has, or what a control group leaves of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.process.machine import memory_bytes


def machine(folder: Path, membership: str, limits: dict[str, str]) -> int:
    """What is found with these files."""
    (folder / "cgroup").write_text(membership)
    for name, text in limits.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return memory_bytes(folder / "cgroup", folder / "fs")


@pytest.mark.parametrize(
    ("membership", "limits", "found"),
    [
        ("0::/", {"fs/memory.max": "5000\n"}, 5000),
        ("0::/a/b", {"fs/a/memory.max": "4000\n", "fs/a/b/memory.max": "max\n"}, 4000),
        ("0::/a/b", {"fs/a/memory.max": "4000\n", "fs/a/b/memory.max": "3000\n"}, 3000),
        ("5:cpu,memory:/a", {"fs/memory/a/memory.limit_in_bytes": "2000\n"}, 2000),
        ("5:cpu:/a\n0::/", {"fs/cpu/a/memory.max": "1\n"}, None),
        ("0::/a", {"fs/memory.max": "max\n"}, None),
    ],
)
def test_the_least_limit_counts(tmp_path: Path, membership: str, limits: dict[str, str], found: int | None) -> None:
    """Of the group or any above it, in both versions; without one it is the machine's."""
    assert machine(tmp_path, membership, limits) == (memory_bytes(tmp_path / "none") if found is None else found)


def test_without_control_groups_it_is_the_machine_s(tmp_path: Path) -> None:
    assert memory_bytes(tmp_path / "none", tmp_path) > 100_000_000
