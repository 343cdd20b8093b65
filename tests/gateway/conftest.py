"""Two clusters for tests of links."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.rig import SHIPS, STILL, Site


@pytest.fixture
async def sf(tmp_path: Path) -> AsyncIterator[Site]:
    """The source's cluster, with an empty stream."""
    async with Site("sf", tmp_path, STILL) as site:
        await site.stream(SHIPS)
        yield site


@pytest.fixture
async def ny(tmp_path: Path) -> AsyncIterator[Site]:
    """The destination's cluster."""
    async with Site("ny", tmp_path, STILL) as site:
        yield site
