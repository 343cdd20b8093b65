"""Format `fairlead.mirror`: rows are what the readers of workers tell their sinks.

Spark's planning processes load this, and need nothing of what tasks do; see `rounds`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from fairlead.mirror.spark.options import MirrorTasks
from fairlead.model.clock import SystemClock
from fairlead.spark.schema import SPARK_SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Task(InputPartition):
    """One task of a round."""

    index: int
    until_ms: int
    """When the round is over, by the driver's clock."""
    cold: bool
    """Whether the query is new, and perhaps the JVM too."""


class MirrorReader(DataSourceStreamReader):
    """Pickled on the driver, used there and on executors; holds options only."""

    def __init__(self, tasks: MirrorTasks) -> None:
        self._tasks = tasks

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"round": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """The next round's number: a round begins as soon as the one before has ended."""
        return {"round": start["round"] + 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        until_ms = SystemClock().wall_ms() + int(self._tasks.round_seconds * 1000)
        return [Task(index, until_ms, start["round"] == 0) for index in range(len(self._tasks.places))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows until the round's time is over."""
        from fairlead.mirror.spark import rounds

        assert isinstance(partition, Task)
        return rounds.read(self._tasks, partition.index, partition.until_ms, cold=partition.cold)


class MirrorWriter(DataSourceStreamArrowWriter):
    """Pickled on the driver, used on executors; holds options only."""

    def __init__(self, tasks: MirrorTasks) -> None:
        self._tasks = tasks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Do what the rows say until the reader of this task ends. Nothing is committed through Spark."""
        from fairlead.mirror.spark import rounds

        rounds.write(self._tasks, iterator)
        return WriterCommitMessage()


class MirrorDataSource(DataSource):
    """Options are those of `MirrorTasks`."""

    @classmethod
    def name(cls) -> str:
        return "fairlead.mirror"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def streamReader(self, schema: StructType) -> MirrorReader:  # noqa: N802 - Spark's name
        return MirrorReader(MirrorTasks.from_texts(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> MirrorWriter:  # noqa: N802 - Spark's name
        return MirrorWriter(MirrorTasks.from_texts(self.options))
