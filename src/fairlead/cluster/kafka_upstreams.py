"""The Kafka clusters whose topics streams of this cluster keep, as entries of `meta/`.

Only records are kept here; `gateway/from_kafka` acts on them and is told of each change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fairlead.cluster.keys import KAFKA, kafka_clusters, kafka_key
from fairlead.cluster.records import put_record, put_record_of
from fairlead.cluster.values import KafkaUpstream, kafka_from_json, kafka_json
from fairlead.model.errors import AlreadyExists, NotFound
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.entries import delete_entry
from fairlead.streamlog.writing.shard import Shard


class KafkaUpstreams:
    """Of all streams of a cluster."""

    def __init__(self, meta: Shard) -> None:
        self._meta = meta
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change."""
        self._listeners.append(listener)

    def all(self) -> list[KafkaUpstream]:
        """Every one, oldest first."""
        mark = f"{KAFKA}/"
        entries = [(key, entry) for key, entry in self._meta.state.entries.items() if key.startswith(mark)]
        found = [kafka_from_json(bytes.fromhex(key.split("/")[1]), entry) for key, entry in entries]
        return sorted(found, key=lambda each: (each.created_at, each.link))

    def of(self, stream: bytes) -> list[KafkaUpstream]:
        """Those of a stream, by name."""
        return [kafka_from_json(stream, entry) for _, entry in kafka_clusters(self._meta.state.entries, stream)]

    def by_link(self, link: bytes) -> KafkaUpstream | None:
        """The one that is recorded under that id."""
        return next((each for each in self.all() if each.link == link), None)

    def find(self, stream: bytes, name: str) -> KafkaUpstream:
        """The one of that name.

        Raises:
            NotFound: there is none.
        """
        entry = self._meta.state.entries.get(kafka_key(stream, name))
        if entry is None:
            raise NotFound(f"kafka://{name} is no upstream; see `fairlead stream upstream list`")
        return kafka_from_json(stream, entry)

    async def add(self, upstream: KafkaUpstream) -> None:
        """Let a stream keep topics of a Kafka cluster.

        Raises:
            AlreadyExists: it does, under that name or another.
            UnknownStream: the stream was deleted meanwhile.
        """
        key = kafka_key(upstream.stream, upstream.name)

        def request(draft: Draft) -> None:
            others = [
                kafka_from_json(upstream.stream, entry)
                for _, entry in kafka_clusters(self._meta.state.entries, upstream.stream)
            ]
            if draft.state.entry(key) is not None:
                raise AlreadyExists(f"{upstream.path} is an upstream already")
            for each in others:
                if each.kafka_cluster == upstream.kafka_cluster:
                    raise AlreadyExists(
                        f"the Kafka cluster {each.kafka_cluster} is an upstream already, as {each.path}"
                    )
            put_record_of(draft, upstream.stream, key, kafka_json(upstream))

        await self._submit(request)

    async def edit(self, stream: bytes, name: str, **changes: Any) -> None:
        """Change fields of one.

        Raises:
            NotFound, InvalidValue
        """
        key = kafka_key(stream, name)

        def request(draft: Draft) -> None:
            entry = draft.state.entry(key)
            if entry is None:
                raise NotFound(f"kafka://{name} is no upstream")
            put_record(draft, key, kafka_json(replace(kafka_from_json(stream, entry), **changes)))

        await self._submit(request)

    async def remove(self, stream: bytes, name: str) -> None:
        """Forget one; what it has brought stays. Nothing, if it is not there."""
        await self._submit(lambda draft: delete_entry(draft, kafka_key(stream, name)))

    async def forget_stream(self, stream: bytes) -> None:
        """Forget all of a stream that is deleted."""
        for each in self.of(stream):
            await self.remove(stream, each.name)

    async def _submit(self, request: Callable[[Draft], object]) -> None:
        await self._meta.submit(request)
        for listener in self._listeners:
            listener()
