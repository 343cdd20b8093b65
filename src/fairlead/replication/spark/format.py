"""Format `fairlead.link`: rows are frames, of all links of a cluster.

spark.readStream.format("fairlead.link").options(server=URL).load()
     .writeStream.format("fairlead.link").options(server=URL).start()
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from fairlead.replication.spark.options import LinkOptions
from fairlead.replication.spark.sink import LinkBatchWriter, LinkStreamWriter
from fairlead.replication.spark.source import LinkBatchReader, LinkStreamReader
from fairlead.spark.schema import SPARK_SCHEMA

FORMAT = "fairlead.link"


class LinkDataSource(DataSource):
    """Register it with `spark.dataSource.register`; options are those of `LinkOptions`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SPARK_SCHEMA

    def streamReader(self, schema: StructType) -> LinkStreamReader:  # noqa: N802 - Spark's name
        return LinkStreamReader(self._link_options())

    def streamWriter(self, schema: StructType, overwrite: bool) -> LinkStreamWriter:  # noqa: N802 - Spark's name
        return LinkStreamWriter(self._link_options())

    def reader(self, schema: StructType) -> LinkBatchReader:
        return LinkBatchReader(self._link_options())

    def writer(self, schema: StructType, overwrite: bool) -> LinkBatchWriter:
        return LinkBatchWriter(self._link_options())

    def _link_options(self) -> LinkOptions:
        return LinkOptions.from_texts(self.options)
