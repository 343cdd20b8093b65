"""The Spark side of the sink: format `fairlead.link`, for writing.

`write` runs in a Python process of the executor, once per task and round, with an iterator that yields rows as the
reader of the same task hands them on; the rest is in `rounds` and the room `sink`. Nothing is committed through Spark:
the only progress is what a destination has recorded, so a round may be lost or repeated at any moment without harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from fairlead.replication.spark.options import LinkOptions

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Carried(WriterCommitMessage):
    """What one task took from Spark in a round."""

    frames: int
    size_bytes: int


class LinkStreamWriter(DataSourceStreamArrowWriter):
    """Pickled on the driver, used on executors; holds options only."""

    def __init__(self, options: LinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Post frames until the reader of this task ends; never fails because a destination does."""
        return _carry(self._options, iterator)


class LinkBatchWriter(DataSourceArrowWriter):
    """The same writer for a catch-up that ends."""

    def __init__(self, options: LinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Post frames until the reader of this task ends, which is after their answers."""
        return _carry(self._options, iterator)


def _carry(options: LinkOptions, batches: Iterator[pa.RecordBatch]) -> Carried:
    from fairlead.replication.spark import rounds

    return Carried(*rounds.write(options, batches))
