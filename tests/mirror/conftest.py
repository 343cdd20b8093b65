"""A world of clusters in memory, in which nothing is left open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mirror.world import World


@pytest.fixture(params=["local", "workers"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Clusters `a` and `b`. Each test is of every engine: what a mirror promises does not depend on who carries."""
    world = World(tmp_path if request.param == "workers" else None)
    yield world
    world.check_closed()
