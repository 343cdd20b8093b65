"""Kafka Streams in the tests' virtual machine: an application of operators that need no Java code of our own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import get_field
from py4j.protocol import Py4JJavaError

from tests.interop.clients.java_vm import JavaVM
from tests.interop.site import Site
from tests.support.waiting import wait_until

STREAMS = "org.apache.kafka.streams"
COUNTS, DAYS = "counts", "days"
"""A store of counts by key, and one of counts by key and day."""


class StreamsLibrary:
    """Kafka Streams."""

    def __init__(self, java: JavaVM) -> None:
        self._java = java

    @contextmanager
    def counting(self, site: Site, topic: str, state: Path) -> Iterator[Counting]:
        """An application that counts a topic's records by key, and by key and day, until the block ends.

        They go through a repartition topic, and each of the two stores has a changelog. Its local state is in the
        folder `state`; its topics are the stream's.
        """
        builder = self._java.of(f"{STREAMS}.StreamsBuilder")()
        again = self._java.of(f"{STREAMS}.kstream.Repartitioned").numberOfPartitions(2)
        records = builder.stream(topic).repartition(again.withName("again")).groupByKey()
        named = getattr(self._java.of(f"{STREAMS}.kstream.Materialized"), "as")
        records.count(named(COUNTS))
        a_day = self._java.of("java.time.Duration").ofDays(1)
        days = self._java.of(f"{STREAMS}.kstream.TimeWindows").ofSizeWithNoGrace(a_day)
        records.windowedBy(days).count(named(DAYS))
        serdes = "org.apache.kafka.common.serialization.Serdes$StringSerde"
        settings = {
            "application.id": f"counting-{topic}",
            "bootstrap.servers": site.of_stream,
            "state.dir": str(state),
            "default.key.serde": serdes,
            "default.value.serde": serdes,
            "commit.interval.ms": "100",
            "repartition.purge.interval.ms": "200",
            "heartbeat.interval.ms": "200",
            "consumer.internal.leave.group.on.close": "true",  # else the next one waits until its session has ended
            "metadata.max.age.ms": "300",
        }
        properties = self._java.of("java.util.Properties")()
        properties.putAll(self._java.map(settings))
        application = self._java.of(f"{STREAMS}.KafkaStreams")(builder.build(), properties)
        with self._java.closing(application):
            application.start()
            yield Counting(self._java, application)


@dataclass(frozen=True)
class Counting:
    """An application that counts, running."""

    _java: JavaVM
    _application: Any

    def wait_for(self, counts: dict[str, int]) -> None:
        """Until both stores have just these."""
        kinds = self._java.of(f"{STREAMS}.state.QueryableStoreTypes")
        stores = ((COUNTS, kinds.keyValueStore()), (DAYS, kinds.windowStore()))
        wait_until(lambda: all(self._counts(*store) == counts for store in stores), "the stores have the counts")

    def _counts(self, store: str, kind: Any) -> dict[str, int] | None:
        """What a store has, all days together; None while it is being restored."""
        assert self._application.state().toString() != "ERROR", "the application has ended with an error"
        asked = self._java.of(f"{STREAMS}.StoreQueryParameters").fromNameAndType(store, kind)
        try:
            with self._java.closing(self._application.store(asked).all()) as found:
                pairs = []
                while found.hasNext():
                    pairs.append(found.next())
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() in {
                "InvalidStateStoreException",
                "StreamsNotStartedException",
            }:
                return None
            raise
        counts: Counter[str] = Counter()
        for pair in pairs:
            key = get_field(pair, "key")
            counts[key if isinstance(key, str) else key.key()] += get_field(pair, "value")
        return counts
