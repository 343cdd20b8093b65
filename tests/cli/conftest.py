"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.desk import CommandLine
from tests.support.sites import Site


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("command-line")


@pytest.fixture(scope="session")
def site(folder: Path) -> Iterator[Site]:
    """One server without a replicator, for all tests; each uses streams of its own."""
    found = Site("sanfrancisco", folder)
    found.start("server")
    yield found
    found.stop()


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A command line that knows no cluster."""
    monkeypatch.setenv("FAIRLEAD_CLUSTERS", str(tmp_path / "clusters.toml"))
    return CommandLine(capsys)


@pytest.fixture
def fairlead(empty: CommandLine, site: Site) -> CommandLine:
    """A command line that knows the server."""
    empty.ok(f"cluster add -http {site.url}")
    return empty
