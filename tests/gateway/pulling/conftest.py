"""Two clusters whose questions are not tried again: each waits for its answer as long as a busy machine may need."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from tests.gateway.rig import FAST, SHIPS, Site
from tests.support.waiting import WAIT_SECONDS

PATIENT: Final = replace(FAST, answer_s=WAIT_SECONDS)


@pytest.fixture
async def sf(tmp_path: Path) -> AsyncIterator[Site]:
    """The source's cluster, with an empty stream."""
    async with Site("sf", tmp_path, PATIENT) as site:
        await site.stream(SHIPS)
        yield site


@pytest.fixture
async def ny(tmp_path: Path) -> AsyncIterator[Site]:
    """The destination's cluster."""
    async with Site("ny", tmp_path, PATIENT) as site:
        yield site
