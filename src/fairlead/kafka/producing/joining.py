"""Partitions are joined to a transaction before anything is written to them, where that is not done by the first batch.

Nothing is sent until the coordinator has said yes: while it ends the transaction before, it says
CONCURRENT_TRANSACTIONS, and a batch that is sent all the same is taken, and ends up in that one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from fairlead.kafka.asking.coordinator import TransactionCoordinator
from fairlead.kafka.connecting.versions import ADD_PARTITIONS_TO_TXN
from fairlead.kafka.errors import PASSING, error_of
from fairlead.kafka.producing.lanes import Lane
from fairlead.kafka.values import TopicPartition
from fairlead.model.errors import Aborted, FairleadError, Fenced, TryAgain, Unanswered

_VERSION_MAX: Final = 3
"""Later ones are between brokers."""


class Joining:
    """Tells the coordinator of partitions, of all that have come up meanwhile at a time."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        identity: Callable[[], Mapping[str, Any]],
        joined: Callable[[Lane], None],
        is_gone: Callable[[Lane], bool],
        failed: Callable[[Fenced | Aborted], None],
    ) -> None:
        """`identity` gives the fields of a request that say whose transaction it is; `is_gone` tells a partition that
        is not there from one that the coordinator has not heard of yet."""
        self.trouble: str | None = None
        """What it waits for."""
        self._coordinator = coordinator
        self._identity = identity
        self._joined = joined
        self._is_gone = is_gone
        self._failed = failed
        self._wanted: dict[TopicPartition, Lane] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, lane: Lane) -> None:
        """Join the partition of this lane."""
        self._wanted[lane.place] = lane
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="kafka-join")

    async def close(self) -> None:
        """Ask no more."""
        self._wanted.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._wanted:
                try:
                    await self._coordinator.again(self._ask)
                    self.trouble = None
                except TryAgain as error:
                    self.trouble = str(error)
        except (Fenced, Aborted) as error:
            self._failed(error)
        except FairleadError as error:
            self._failed(Aborted(str(error)))
        finally:
            self._task = None

    async def _ask(self) -> None:
        """Raises: TryAgain, Unanswered, Malformed: not all are joined yet; Fenced, Aborted, NotAllowed."""
        asked = dict(self._wanted)
        fields = {**self._identity(), "v3_and_below_topics": _named(asked)}
        answer = await self._coordinator.call(ADD_PARTITIONS_TO_TXN, fields, _VERSION_MAX)
        codes = {place: code for place, code in _outcomes(answer) if place in asked}
        for place, code in codes.items():
            if code is ErrorCode.none and place in self._wanted:
                self._joined(self._wanted.pop(place))
        # One that is not allowed is why all others were not tried.
        for place, code in sorted(codes.items(), key=lambda item: item[1] is ErrorCode.operation_not_attempted):
            self._check(place, code)
        if codes.keys() != asked.keys():
            raise Unanswered("the coordinator's answer leaves out partitions")

    def _check(self, place: TopicPartition, code: ErrorCode) -> None:
        if code is ErrorCode.none:
            return
        error = error_of(code, str(place))
        if isinstance(error, (*PASSING, Fenced, Aborted)):
            self._coordinator.check(code, str(place))
        if code is ErrorCode.unknown_topic_or_partition and not self._is_gone(self._wanted[place]):
            raise TryAgain(str(error))
        self._wanted.pop(place).fail(error)
        raise Aborted(f"a partition of the transaction was refused: {error}")


def _named(places: Iterable[TopicPartition]) -> list[Mapping[str, Any]]:
    topics: dict[str, list[int]] = {}
    for place in sorted(places):
        topics.setdefault(place.topic, []).append(place.partition)
    return [{"name": name, "partitions": numbers} for name, numbers in topics.items()]


def _outcomes(answer: Any) -> Iterable[tuple[TopicPartition, ErrorCode]]:
    for topic in answer.results_by_topic_v3_and_below:
        for each in topic.results_by_partition:
            yield TopicPartition(topic.name, each.partition_index), each.partition_error_code
