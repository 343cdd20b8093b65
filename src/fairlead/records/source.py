"""The shell that Spark calls for `format("fairlead")`: reads and writes, once and as streams.

Spark imports this in a separate process for each question, so it imports little; planning and decoding are loaded
where they are used. PySpark's contract: `pyspark/sql/datasource.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    EqualTo,
    Filter,
    In,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from fairlead.model.errors import InvalidValue
from fairlead.records.columns import spark_schema
from fairlead.records.options import LATEST, Options

if TYPE_CHECKING:
    from fairlead.records.writing.options import WriteOptions


class FairleadSource(DataSource):
    """Records of one stream."""

    @classmethod
    def name(cls) -> str:
        return "fairlead"

    def schema(self) -> str:
        return spark_schema(Options.parse(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = Options.parse(self.options)
        return FilteringReader(options) if options.push_filters else RecordsReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        options = Options.parse(self.options)
        if options.ending != LATEST:
            raise InvalidValue("option endingOffsets is for a batch; a stream is read until it is stopped")
        return RecordsStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from fairlead.records.writing.writer import RecordsWriter

        return RecordsWriter(self._write_options(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (Spark's name)
        from fairlead.records.writing.writer import RecordsStreamWriter

        return RecordsStreamWriter(self._write_options(schema, overwrite))

    def _write_options(self, schema: StructType, overwrite: bool) -> WriteOptions:
        from pyspark.sql.pandas.types import to_arrow_schema

        from fairlead.records.writing.encoding import check_types
        from fairlead.records.writing.options import WriteOptions
        from fairlead.records.writing.routing import check_columns

        if overwrite:
            raise InvalidValue("records are never replaced; write with mode append")
        options = WriteOptions.parse(self.options)
        check_columns(schema.fieldNames(), options)
        check_types(to_arrow_schema(schema, timezone="UTC"), options)
        return options


def _partitions(tasks: Sequence[Any]) -> list[InputPartition]:
    return [InputPartition(task) for task in tasks]


def _read(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    from fairlead.records.reading import read

    return iter(()) if partition.value is None else read(partition.value)


class RecordsReader(DataSourceReader):
    """Reads a stream once."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._topics: frozenset[str] | None = None
        self._numbers: frozenset[int] | None = None

    def partitions(self) -> Sequence[InputPartition]:
        from fairlead.records.planner import Planner, Pushed

        return _partitions(Planner(self._options).batch(Pushed(self._topics, self._numbers)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


class FilteringReader(RecordsReader):
    """The same reader with `pushFilters`. It is a class of its own, since Spark refuses a reader with this method while
    Spark's setting `spark.sql.python.filterPushdown.enabled` is off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Takes equality and IN on topic and partition; Spark keeps the others."""
        for each in filters:
            if isinstance(each, EqualTo | In) and each.attribute == ("topic",):
                self._topics = _both(self._topics, frozenset(map(str, _values(each))))
            elif isinstance(each, EqualTo | In) and each.attribute == ("partition",):
                self._numbers = _both(self._numbers, frozenset(map(int, _values(each))))
            else:
                yield each


def _values(each: EqualTo | In) -> list[Any]:
    values = each.value if isinstance(each, In) else [each.value]
    return [value for value in values if value is not None]


def _both(left: frozenset[Any] | None, right: frozenset[Any]) -> frozenset[Any]:
    return right if left is None else left & right


class RecordsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream continuously. Its offset is a position in the log: `records/position.py`."""

    def __init__(self, options: Options) -> None:
        from fairlead.records.planner import Planner

        self._options = options
        self._planner = Planner(options)
        self._until: dict[int, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        return self._planner.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        self._until = self._planner.ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        from fairlead.records.position import from_json

        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._planner.latest(from_json(start), most, self._until).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        from fairlead.records.position import from_json

        return _partitions(self._planner.tasks(from_json(start), from_json(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)
