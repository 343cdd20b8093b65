"""A producer of transactions: batches of any partitions that take effect together, or not at all.

`open` makes this the only producer of its transactional id: it ends what another one, or this one, has left open, and
whoever had the id before is refused from then on. Then, again and again: `send`, and `commit`, which waits for all that
was sent. The first batch begins a transaction.

Two protocols are spoken, and the cluster's feature `transaction.version` says which. In the first, partitions are
joined before anything is written to them (`joining.py`). In the second (KIP-890) a batch joins its partition by itself,
and the end of a transaction gives the epoch of the next: what comes late can never end up in it.

What passes is waited for. What does not ends the transaction: `Aborted`, and all that was sent since the last commit is
as if it never was. Who was `Fenced` cannot know whether another producer has the id, or its transaction took longer
than its time. After either, `open` begins anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from fairlead.kafka.asking.coordinator import TransactionCoordinator
from fairlead.kafka.asking.metadata import Metadata
from fairlead.kafka.configuration.settings import ProduceSettings
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.connecting.versions import END_TXN, INIT_PRODUCER_ID, SPOKEN
from fairlead.kafka.producing.joining import Joining
from fairlead.kafka.producing.lanes import Batch, Lane
from fairlead.kafka.producing.link import Terms
from fairlead.kafka.producing.producer import OnId, Producer
from fairlead.model.errors import Aborted, Closed, TryAgain

NONE: Final = 0
"""The cluster has no transactions."""
FIRST: Final = 1
"""Partitions are joined by a request of their own."""
SECOND: Final = 2
"""Batches join their partitions."""
FEATURE: Final = "transaction.version"

_PRODUCE_MAX: Final = {FIRST: 11, SECOND: 13}
_END_MAX: Final = {FIRST: 4, SECOND: 5}
_NO_ID: Final = -1


async def transaction_version(brokers: Brokers) -> int:
    """Which protocol of transactions a cluster has. Raises: Unreachable."""
    versions = (await brokers.any()).versions
    if not versions.takes(END_TXN):
        return NONE
    return SECOND if versions.features.get(FEATURE, 0) >= SECOND else FIRST


class TransactionalProducer:
    """Made by `Cluster.transactional`; `open` comes first."""

    def __init__(
        self,
        brokers: Brokers,
        metadata: Metadata,
        settings: ProduceSettings,
        transactional_id: str,
        connections: int = 1,
        on_id: OnId | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.protocol = NONE
        """Known once it is open."""
        self._brokers = brokers
        self._metadata = metadata
        self._settings = settings
        self._connections = connections
        self._on_id = on_id
        self._coordinator = TransactionCoordinator(brokers, transactional_id)
        self._producer: Producer | None = None
        self._joining: Joining | None = None
        self._begun = False
        self._trouble: str | None = None

    async def open(self) -> None:
        """Become the one producer of the transactional id.

        Raises:
            NotAllowed: the id is not ours to use, or the cluster has no transactions.
            InvalidValue: the broker does not allow a transaction so much time.
            TryAgain: it does not answer, or still ends a transaction.
        """
        await self._drop()
        self.protocol = await transaction_version(self._brokers)
        producer_id, epoch = await self._coordinator.again(self._ask_id)
        await self._told(producer_id, epoch)
        terms = Terms(self.transactional_id, _PRODUCE_MAX.get(self.protocol, _PRODUCE_MAX[FIRST]))
        joins = self.protocol != SECOND
        join = self._join if joins else None
        self._producer = Producer(
            self._brokers, self._metadata, self._settings, self._connections, terms=terms, join=join
        )
        self._producer.adopt(producer_id, epoch)
        if joins:
            producer = self._producer
            self._joining = Joining(self._coordinator, self._joiner, producer.joined, producer.is_gone, producer.failed)

    @property
    def producer_id(self) -> int:
        """Of the transaction that is open, or the next."""
        return _NO_ID if self._producer is None else self._producer.producer_id

    @property
    def down(self) -> str | None:
        """What it waits for; None if all is taken."""
        joining = None if self._joining is None else self._joining.trouble
        producing = None if self._producer is None else self._producer.down
        return self._trouble or joining or producing

    def send(self, topic: str, partition: int, batch: Batch) -> asyncio.Future[int | None]:
        """Queue a batch of the transaction. The future has its base offset once all replicas in sync have it, which
        counts only when the transaction is committed; or `Aborted`, `Fenced`, or why the batch was refused, which
        aborts the transaction."""
        if self._producer is None:
            raise Closed(f"transactional id {self.transactional_id} is not open")
        self._begun = True
        return self._producer.send(topic, partition, batch)

    async def flush(self) -> None:
        """Wait until all that was sent has been acknowledged or refused, or has failed."""
        if self._producer is not None:
            await self._producer.flush()

    async def commit(self) -> None:
        """Wait until all that was sent is written, and let it take effect.

        Raises:
            Aborted: nothing of it does.
            Fenced: another producer has the id, or the transaction was ended since it took too long; whether it took
                effect is not known, where the answer to an earlier try was lost.
            NotAllowed
        """
        producer = self._producer
        if producer is None:
            raise Closed(f"transactional id {self.transactional_id} is not open")
        await producer.flush()
        if producer.error is not None:
            raise producer.error
        if self._begun:
            producer_id, epoch = await self._insist_on_end(producer)
            self._begun = False
            if producer_id != producer.producer_id:
                await self._told(producer_id, epoch)
            producer.adopt(producer_id, epoch)

    async def close(self) -> None:
        """Drop what is not committed. Its transaction is ended by the next `open`, or by its time."""
        await self._drop()

    async def _drop(self) -> None:
        joining, self._joining = self._joining, None
        producer, self._producer = self._producer, None
        self._begun, self._trouble = False, None
        if joining is not None:
            await joining.close()
        if producer is not None:
            await producer.close()

    async def _told(self, producer_id: int, epoch: int) -> None:
        if self._on_id is not None:
            await self._on_id(producer_id, epoch)

    # ------------------------------------------------------------ the coordinator

    async def _ask_id(self) -> tuple[int, int]:
        fields = {
            "transactional_id": self.transactional_id,
            "transaction_timeout": timedelta(milliseconds=self._settings.transaction_timeout_ms),
            "producer_id": _NO_ID,
            "producer_epoch": -1,
        }
        answer = await self._coordinator.call(INIT_PRODUCER_ID, fields, SPOKEN[INIT_PRODUCER_ID][-1])
        self._coordinator.check(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    def _join(self, lane: Lane) -> None:
        assert self._joining is not None
        self._joining.add(lane)

    def _joiner(self) -> Mapping[str, Any]:
        return {f"v3_and_below_{name}": value for name, value in self._identity().items()}

    def _identity(self) -> Mapping[str, Any]:
        if self._producer is None:
            raise Aborted(f"transactional id {self.transactional_id} is not open any more")
        producer_id, epoch = self._producer.identity
        return {"transactional_id": self.transactional_id, "producer_id": producer_id, "producer_epoch": epoch}

    async def _insist_on_end(self, producer: Producer) -> tuple[int, int]:
        """Commit, for as long as it takes; the id and epoch of the next transaction.

        A try whose answer was lost may have done it; then the next one is told so.
        """
        while True:
            try:
                found = await self._coordinator.again(lambda: self._end(producer))
            except TryAgain as error:
                self._trouble = str(error)
                continue
            self._trouble = None
            return found

    async def _end(self, producer: Producer) -> tuple[int, int]:
        fields = {**self._identity(), "committed": True}
        answer = await self._coordinator.call(END_TXN, fields, _END_MAX[self.protocol])
        self._coordinator.check(answer.error_code, "the end of a transaction")
        if getattr(answer, "producer_id", _NO_ID) == _NO_ID:
            return producer.identity
        return answer.producer_id, answer.producer_epoch
