"""The broker that keeps the transactions of one transactional id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from fairlead.kafka.asking.retrying import again
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.connecting.versions import FIND_COORDINATOR
from fairlead.kafka.errors import PASSING, check
from fairlead.model.addresses import Address

T = TypeVar("T")
_TRANSACTION: Final = 1
_MOVED: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.transaction_coordinator_fenced,
    }
)
"""Another broker may be it now, or is about to be."""
_FIRST_PAUSE_MS: Final = 5
"""The coordinator writes the end of a transaction to its partitions after it has answered. Until then, which takes some
milliseconds, it says CONCURRENT_TRANSACTIONS to all that comes."""


class TransactionCoordinator:
    """Is sought again when it does not answer, or says that it is another one."""

    def __init__(self, brokers: Brokers, transactional_id: str) -> None:
        self._brokers = brokers
        self._settings = replace(
            brokers.settings, retry_backoff_ms=min(_FIRST_PAUSE_MS, brokers.settings.retry_backoff_ms)
        )
        self._id = transactional_id
        self._address: Address | None = None

    async def again(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """What `attempt` gives, which is made until it gives something, at most for `request_timeout_ms`.

        Raises:
            TryAgain: what it last failed with; else what it raised.
        """
        return await again(self._settings, attempt)

    async def call(self, api_key: int, fields: Mapping[str, Any], version_max: int) -> Any:
        """Ask once.

        Raises:
            TryAgain, Unanswered, Malformed
            NotAllowed: the transactional id is not ours to use, or there are no transactions.
        """
        try:
            if self._address is None:
                self._address = await self._find()
            connection = await self._brokers.at(self._address)
            version = min(connection.versions.of(api_key), version_max)
            return await connection.call_version(api_key, version, fields)
        except PASSING:
            self._address = None
            raise

    def check(self, code: int, what: str = "") -> None:
        """Raises: the error for the code, unless it is none."""
        if code in _MOVED:
            self._address = None
        check(code, f"transactional id {self._id}{what and ', '}{what}")

    async def _find(self) -> Address:
        answer = await (await self._brokers.any()).call(FIND_COORDINATOR, {"key": self._id, "key_type": _TRANSACTION})
        check(answer.error_code, f"transactional id {self._id}", answer.error_message)
        return Address(answer.host, answer.port)
