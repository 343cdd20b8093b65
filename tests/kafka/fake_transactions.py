"""The coordinator of a broker that says what it is told to: who has which transactional id, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

NOBODY = 900
"""Producer id of those without a transactional id."""


@dataclass
class Transactional:
    """A transactional id."""

    producer_id: int
    epoch: int = -1
    open: bool = False
    """A transaction has begun."""
    joined: set[tuple[str, int]] = field(default_factory=set)


class FakeTransactions:
    """As Kafka's, but that a transaction ends at once: a test that wants it later says so by its script."""

    def __init__(self) -> None:
        self.ids: dict[str, Transactional] = {}
        self.ends: list[tuple[str, int, str]] = []
        """Transactional id, epoch, and whether it was committed or aborted."""
        self.epochs_max = 2**15 - 2
        self._last_id = 1000

    def begin(self, request: Any) -> Mapping[str, Any]:
        """The usual answer to InitProducerId."""
        if request.transactional_id is None:
            return {"error_code": ErrorCode.none, "producer_id": NOBODY, "producer_epoch": 0}
        found = self.ids.get(request.transactional_id)
        if found is None:
            found = self.ids[request.transactional_id] = Transactional(self._new_id())
        if found.open:
            self._end(request.transactional_id, found, "aborted")
            found.epoch += 1
        self._bump(found)
        return {"error_code": ErrorCode.none, "producer_id": found.producer_id, "producer_epoch": found.epoch}

    def join(self, request: Any) -> Mapping[str, Any]:
        """The usual answer to AddPartitionsToTxn."""
        error = self._fault(request, "v3_and_below_")
        found = self.ids[request.v3_and_below_transactional_id]
        if error is ErrorCode.none:
            found.open = True
            found.joined |= {
                (topic.name, number) for topic in request.v3_and_below_topics for number in topic.partitions
            }
        return joined(request, error)

    def end(self, request: Any) -> Mapping[str, Any]:
        """The usual answer to EndTxn; from version 5 on with the epoch of the next transaction."""
        error = self._fault(request)
        found = self.ids[request.transactional_id]
        if error is ErrorCode.none:
            self._end(request.transactional_id, found, "committed" if request.committed else "aborted")
            if request.__version__ >= 5:
                self._bump(found)
                return {"error_code": error, "producer_id": found.producer_id, "producer_epoch": found.epoch}
        return {"error_code": error}

    def fence(self, transactional_id: str) -> None:
        """As another producer that opens the id would."""
        self.ids[transactional_id].epoch += 1

    def _end(self, name: str, found: Transactional, how: str) -> None:
        self.ends.append((name, found.epoch, how))
        found.open = False
        found.joined.clear()

    def _bump(self, found: Transactional) -> None:
        found.epoch += 1
        if found.epoch > self.epochs_max:
            found.producer_id, found.epoch = self._new_id(), 0

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _fault(self, request: Any, prefix: str = "") -> ErrorCode:
        found = self.ids.get(getattr(request, f"{prefix}transactional_id"))
        if found is None or found.producer_id != getattr(request, f"{prefix}producer_id"):
            return ErrorCode.invalid_producer_id_mapping
        same = found.epoch == getattr(request, f"{prefix}producer_epoch")
        return ErrorCode.none if same else ErrorCode.producer_fenced


def joined(request: Any, error: ErrorCode, others: ErrorCode | None = None) -> Mapping[str, Any]:
    """An answer to AddPartitionsToTxn: `error` for the first partition, and `others` for those behind it."""
    codes = iter([error])
    topics = [
        {
            "name": topic.name,
            "results_by_partition": [
                {"partition_index": number, "partition_error_code": next(codes, others or error)}
                for number in topic.partitions
            ],
        }
        for topic in request.v3_and_below_topics
    ]
    return {"results_by_topic_v3_and_below": topics}
