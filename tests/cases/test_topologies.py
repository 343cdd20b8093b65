"""Every topology: whatever the order in which its links are made, cut, paused and restored, every record is everywhere
exactly once and at its own offset. `docs/guides/topologies.md` draws them."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from tests.cases.topology import TOPOLOGIES, Topology


@pytest.mark.parametrize("order", ["", "again"])
@pytest.mark.parametrize("name", TOPOLOGIES)
async def test_every_record_is_everywhere_once_at_its_own_offset(name: str, order: str, tmp_path: Path) -> None:
    """All sites write all the time; halves of links come in any order; sites restart. The seed is that of the name and
    the order; `FAIRLEAD_TEST_SEED` takes another."""
    await _plays(Topology(tmp_path, TOPOLOGIES[name], Random(os.environ.get("FAIRLEAD_TEST_SEED", name + order))))


async def test_in_a_full_mesh_each_may_send_on_only_what_is_its_own(tmp_path: Path) -> None:
    """As the guide advises there: every record takes one line to each site."""
    await _plays(Topology(tmp_path, TOPOLOGIES["full mesh"], Random("own"), forward="own"))


@pytest.mark.parametrize("name", ["multi-master", "chain", "ring of both ways"])
async def test_links_whose_options_change_all_the_time_bring_all_in_the_end(name: str, tmp_path: Path) -> None:
    """They leave topics out and let them in, in any order with all else that happens to links and sites."""
    await _plays(Topology(tmp_path, TOPOLOGIES[name], Random(os.environ.get("FAIRLEAD_TEST_SEED", name))), edits=12)


async def _plays(topology: Topology, edits: int = 0) -> None:
    async with topology:
        await topology.play(edits)
        await topology.all_arrived()
