"""Every topology: whatever the order in which its links are made, cut, paused and restored, every record is everywhere
exactly once and at its own offset. `docs/guides/topologies.md` draws them."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from tests.cases.topology import TOPOLOGIES, Topology


@pytest.mark.parametrize("name", TOPOLOGIES)
async def test_every_record_is_everywhere_once_at_its_own_offset(name: str, tmp_path: Path) -> None:
    """All sites write all the time; halves of links come in any order; sites restart. The seed is that of the name;
    `FAIRLEAD_TEST_SEED` takes another."""
    random = Random(os.environ.get("FAIRLEAD_TEST_SEED", name))
    async with Topology(tmp_path, TOPOLOGIES[name], random) as topology:
        await topology.play()
        await topology.all_arrived()
