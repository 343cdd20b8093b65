"""A cluster on storage in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.cluster.opening import Open

from fairlead.cluster.cluster import Cluster
from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.settings import Settings
from fairlead.storage.memory import MemoryStorage


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
async def open_cluster(storage: MemoryStorage) -> AsyncIterator[Open]:
    """Opens the cluster on the same storage, again and again; an earlier one is closed first."""
    opened: list[Cluster] = []
    with ThreadPoolExecutor(4) as executor:

        async def open_again(name: str) -> Cluster:
            while opened:
                await opened.pop().close()
            cluster = await Cluster.open(
                storage,
                name=name,
                settings=Settings(),
                clock=SystemClock(),
                randomness=SystemRandomness(),
                executor=executor,
            )
            opened.append(cluster)
            return cluster

        yield open_again
        while opened:
            await opened.pop().close()
