"""A world of clusters in memory, in which nothing is left open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mirror.world import World


@pytest.fixture
def world() -> Iterator[World]:
    """Clusters `a` and `b`."""
    world = World()
    yield world
    world.check_closed()
