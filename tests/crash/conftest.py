"""Two sites as processes, one stream replicated from the first to the second, for all kill tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.sites import Site, sites
from tests.support.waiting import wait_until

STREAM = "/ships"
PREFIX = STREAM + ":"
SETTINGS = {"merge_commits_min": "50", "pending_after_seconds": "1"}


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and a destination."""

    source: Site
    replica: Site


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The link is there and has carried its first record."""
    folder = tmp_path_factory.mktemp("sites")
    with sites(folder, "sanfrancisco", "newyork", settings=SETTINGS) as (source, replica):
        link(source, folder)
        yield Pair(source, replica)


def link(source: Site, folder: Path) -> None:
    """Make the stream and its replica, and wait for the replicator."""
    source.cli("stream", "create", "-path", f"/mapr/sanfrancisco{STREAM}", "-defaultpartitions", "2")
    source.cli(
        *("stream", "replica", "autosetup", "-path", f"/mapr/sanfrancisco{STREAM}"),
        *("-replica", f"/mapr/newyork{STREAM}"),
    )
    wait_until(lambda: len(source.spark_worker_pids()) > 0, f"Spark's workers run in {folder}")
