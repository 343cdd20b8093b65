"""An engine whose partitions workers carry, whoever runs the workers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from fairlead.mirror.carrying.engine import Run, Way
from fairlead.mirror.workers.coordinator import Coordinator
from fairlead.mirror.workers.messages import Setup
from fairlead.mirror.workers.remote import RemoteCarrier


class WorkersEngine:
    """Of one mirror."""

    sends_here = False

    def __init__(
        self,
        coordinator: Coordinator,
        setup: Callable[[str], Setup],
        watch: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """`setup` is what workers are told, given the id of the destination; `watch` runs for as long as they do, and
        raises what ends them for good."""
        self._coordinator = coordinator
        self._setup = setup
        self._watch = watch

    async def open(self, run: Run) -> None:
        self._coordinator.set_up(self._setup(run.destination_id), run)

    def carrier(self, way: Way) -> RemoteCarrier:
        return self._coordinator.carrier(way)

    def work(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (self._watch(), self._coordinator.work.until_over())

    async def close(self) -> None:
        await self._coordinator.close()
