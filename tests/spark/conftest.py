"""A server and a Spark for the tests of records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from examples.ships import analytics
from pyspark.sql import SparkSession

from tests.spark.running_server import RunningServer, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that merges within a second."""
    with running(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests here."""
    made = analytics.session(spark_sql_python_filterPushdown_enabled="true")
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()
