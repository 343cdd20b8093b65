"""The pair of clusters that idles while all other tests run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cases.idle import IdlePair, linked_both_ways
from tests.support.sites import sites

FIRST = "test_links_both_ways_carry_what_is_written"
LAST = "test_two_idle_clusters_write_no_commit"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What begins the idling comes first and what ends it last, so that nobody waits the five minutes for nothing."""
    items.sort(key=lambda item: (item.name == LAST) - (item.name == FIRST))


@pytest.fixture(scope="session")
def idle_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IdlePair]:
    """Two clusters with their replicators, linked both ways, in which all has arrived."""
    folder = tmp_path_factory.mktemp("idle")
    with sites(folder, "sanfrancisco", "newyork") as both:
        yield linked_both_ways(*both)
