"""The Spark side of the reader: format `fairlead.link`, for reading, in long rounds.

A round is one micro-batch of minutes. On the driver, `latestOffset` always answers the next number, and `partitions`
gives a few equal workers without asking anybody. On an executor, `read` runs once per worker and round and yields
frames as the asyncio reader hands them on, until the round's time is over; see `rounds`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from fairlead.model.clock import SystemClock
from fairlead.replication.spark.options import LinkOptions

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Worker(InputPartition):
    """One task of a round; any worker may be granted any work."""

    index: int
    until_ms: int = 0
    """When the round is over, by the driver's wall clock: all readers end at once. Otherwise the source server would
    grant the first one's work to another that is about to end."""
    cold: bool = False
    """Whether the query is new, and perhaps the JVM too."""


class LinkStreamReader(DataSourceStreamReader):
    """Pickled on the driver, used there and on executors; holds options only."""

    def __init__(self, options: LinkOptions) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"round": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """The next round's number: a round begins as soon as the one before has ended."""
        return {"round": start["round"] + 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """As many workers as the option says; a dead server must not fail the query."""
        until_ms = SystemClock().wall_ms() + int(self._options.round_seconds * 1000)
        cold = start["round"] == 0
        return [Worker(index, until_ms, cold) for index in range(self._options.workers)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Frames until the round's time is over."""
        from fairlead.replication.spark import rounds

        assert isinstance(partition, Worker)
        return rounds.read(self._options, partition.until_ms, cold=partition.cold)


class LinkBatchReader(DataSourceReader):
    """The same reader for a catch-up that ends: each worker ends when nothing is left to carry."""

    def __init__(self, options: LinkOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return [Worker(index) for index in range(self._options.workers)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Frames until everything that was announced has been applied."""
        from fairlead.replication.spark import rounds

        return rounds.read(self._options)
