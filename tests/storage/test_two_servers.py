"""Two processes have one directory, since its lock failed: the older one is fenced, and nothing that it acknowledged
is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage import first_server
from tests.streamlog.world import opened, produced, values_at
from tests.support.packs import always_packed

from fairlead.storage import pack_file
from fairlead.storage.local import LocalStorage, ReadOnlyLocalStorage
from fairlead.streamlog.writing.writer import ShardLog


class FirstServer:
    """Another process that has a log open in the directory, and does what it is told."""

    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", first_server.__name__, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        self.number = int(self.said())

    def said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def produce(self, *values: str) -> list[str]:
        """What became of each: its offset, or the kind of the error."""
        assert self._process.stdin is not None
        print(*values, file=self._process.stdin, flush=True)
        return [self.said() for _ in values]

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def first(root: Path) -> Iterator[FirstServer]:
    server = FirstServer(root)
    yield server
    server.kill()


def packs(root: Path) -> set[str]:
    return {file.name for file in (root / pack_file.FOLDER).iterdir()}


def values(log: ShardLog, number: int) -> list[bytes | None]:
    return list(values_at(log, number).values())


def test_what_the_first_acknowledges_while_the_second_starts_is_not_lost(first: FirstServer, root: Path) -> None:
    """The second looked through the packs before; it looks again once it has claimed the log. Packs of the first in
    which nothing lies yet stay, for it may put something there."""
    assert first.produce("a", "b", "c") == ["0", "1", "2"]
    before = packs(root)
    storage = always_packed(root)
    assert packs(root) == before
    assert first.produce("d", "e", "f") == ["3", "4", "5"]
    second = opened(storage)
    assert first.produce("g") == ["Fenced"]
    assert values(second, first.number) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert produced(second, first.number, b"h").base_offset == 6
    storage.close()
    again = always_packed(root)
    assert values(opened(again), first.number) == [b"a", b"b", b"c", b"d", b"e", b"f", b"h"]
    assert list(ReadOnlyLocalStorage(root).check())[1:] == []
    again.close()


def test_packs_are_taken_over_once_their_maker_has_ended(first: FirstServer, root: Path) -> None:
    """Until then their ends are not known."""
    assert first.produce("a", "b") == ["0", "1"]
    storage = always_packed(root)
    first.kill()
    second = opened(storage)
    assert values(second, first.number) == [b"a", b"b"]
    left = LocalStorage(root)
    assert list(left.check())[1:] == []
    storage.close()
