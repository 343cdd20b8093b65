"""Folders of temporary files."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import pytest

from fairlead.model.errors import StorageUnavailable
from fairlead.spark import folder
from fairlead.spark.folder import Folder

NAME = "fairlead-test"


@pytest.mark.parametrize("place", ["long" * 20, "with space", "a,b", 'say "x"', "a%20b"])
def test_spark_can_use_the_folder_whatever_the_usual_place_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The longest name of a Unix socket is 103 bytes; Java's options end at spaces. What is not used does not stay."""
    usual = tmp_path / place
    usual.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(usual))
    found = Folder(NAME)
    try:
        assert len(f"{found.path}/.{uuid.uuid4()}.sock") <= 103
        assert found.path.parent == Path("/tmp")
    finally:
        found.remove()
    assert not found.path.exists()
    assert list(usual.iterdir()) == []


def test_what_a_killed_process_has_left_goes_with_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a process that lives stays, and so does what nobody has locked."""
    monkeypatch.setattr(folder, "_SOCKET_FOLDER_BYTES_MAX", 1000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"{NAME}-stranger").mkdir()
    program = (
        "import os, sys, tempfile; from fairlead.spark import folder; folder._SOCKET_FOLDER_BYTES_MAX = 1000;"
        f"tempfile.tempdir = sys.argv[1]; folder.Folder({NAME!r}); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert len(list(tmp_path.iterdir())) == 2
    first = Folder(NAME)
    second = Folder(NAME)
    assert set(tmp_path.iterdir()) == {tmp_path / f"{NAME}-stranger", first.path, second.path}
    first.remove()
    second.remove()
    assert list(tmp_path.iterdir()) == [tmp_path / f"{NAME}-stranger"]


def test_no_place_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to do."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(StorageUnavailable, match="set TMPDIR"):
        Folder(NAME)
