"""Two brokers of Apache Kafka with small heaps, shared by all tests of a run that need real ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from benchmarks.systems.kafka import JARS, SMALL, SMALL_HEAP, Kafka, kafka


class KafkaPair(NamedTuple):
    """Source and destination."""

    source: Kafka
    target: Kafka


@contextmanager
def kafka_pair(folder: Path) -> Iterator[KafkaPair]:
    """Both run until the block ends."""
    if not any(JARS.glob("kafka_*.jar")):
        pytest.fail("Apache Kafka's server is not there; run scripts/interop-setup")
    with ExitStack() as stack:
        yield KafkaPair(*(stack.enter_context(kafka(folder / name, SMALL, name, SMALL_HEAP)) for name in ("a", "b")))
