"""What people can do with Kafka clusters whose topics a stream keeps: each command changes a record."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import KafkaUpstream, StreamSettings
from fairlead.gateway.from_kafka import status
from fairlead.gateway.from_kafka.upstream import RunningUpstream
from fairlead.gateway.from_kafka.upstreams import RunningUpstreams
from fairlead.gateway.links.replicator_life import ReplicatorLife
from fairlead.kafka import Cluster as Kafka
from fairlead.kafka.opening import open_by_file
from fairlead.model.errors import AlreadyExists, FairleadError, InvalidValue, NotFound, UnknownStream
from fairlead.protocol.wire import ZERO_UUID
from fairlead.streamlog.values import Topic

TAKEN: Final = ("topics", "exclude_topics", "cursors", "deletes", "config_file")
"""Fields of a record that may be given, and changed."""


class KafkaOrders:
    """Of one cluster. `name` is that of the Kafka cluster, without kafka://, `path` the local path of the stream."""

    def __init__(self, cluster: Cluster, running: RunningUpstreams, replicator: ReplicatorLife) -> None:
        self._cluster = cluster
        self._running = running
        self._replicator = replicator

    async def set_up(
        self, name: str, path: str, *, existing: bool, paused: bool, options: dict[str, Any]
    ) -> dict[str, Any]:
        """Let a stream, which is made if it is not there, keep topics of a Kafka cluster from now on.

        Raises:
            InvalidValue: an option is missing or wrong, or the cluster's brokers are too old.
            AlreadyExists: there is a stream at the path and `existing` is not said, or it keeps that cluster's topics.
            TryAgain, NotAllowed: Kafka does not answer, or does not know us.
        """
        for option, field in (("topics", "topics"), ("consumerconfig", "config_file")):
            if not options.get(field):
                raise InvalidValue(f"-{option} is missing; for kafka://{name} it says what is read and how")
        check_file(options["config_file"])
        stream = self._find(path)
        if stream is not None and not existing:
            raise AlreadyExists(f"stream {path} exists; to use it say -useexistingreplica true")
        kafka_cluster, topics = await _asked(options["config_file"])
        done: list[str] = []
        record = KafkaUpstream(
            stream=bytes(16) if stream is None else stream.id,
            name=name,
            link=self._cluster.randomness.id16(),
            kafka_cluster=kafka_cluster,
            paused=paused,
            created_at=self._cluster.clock.wall_ms(),
            **options,
        )
        passing = sum(record.filter.passing(topics))
        made = stream is None
        if stream is None:
            stream = await self._cluster.create_stream(path, StreamSettings())
            done.append(f"created {self._cluster.global_path(path)}")
        try:
            await self._cluster.kafka.add(_of(record, stream))
        except FairleadError:
            if made:
                await self._cluster.delete_stream(path)
            raise
        done.append(
            f"named {record.path} (Kafka cluster {kafka_cluster}) an upstream of {self._cluster.global_path(path)}"
        )
        return {
            "source": str(record.path),
            "replicaPath": str(self._cluster.global_path(path)),
            "done": done,
            "next": self._what_follows(passing, paused=paused),
        }

    def _what_follows(self, topics: int, *, paused: bool) -> str:
        if paused:
            return "nothing is read yet: run fairlead stream replica resume with the same -path and -replica"
        ailing = self._replicator.ailment()
        if ailing is not None:
            return f"nothing is read yet: {ailing.error}"
        return f"what {topics} topics hold is copied, and what comes later follows"

    def _find(self, path: str) -> Stream | None:
        with suppress(UnknownStream):
            return self._cluster.stream(path)
        return None

    async def edit(self, name: str, path: str, options: dict[str, Any]) -> None:
        """Change what is read, or how. A file that is named is read at once, also if its name is the one of before.

        Raises:
            UnknownStream, NotFound, InvalidValue; as `set_up` of a new file.
        """
        record = self._record(name, path)
        if "config_file" in options:
            check_file(options["config_file"])
            found, _ = await _asked(options["config_file"])
            if found != record.kafka_cluster:
                raise InvalidValue(
                    f"{options['config_file']}: the Kafka cluster {found} answers there, and not {record.kafka_cluster}"
                )
        await self._cluster.kafka.edit(record.stream, name, **options)
        running = self._running.get(record)
        if running is not None and options.get("config_file") == record.config_file:
            running.begin_anew()

    async def pause(self, name: str, path: str, *, paused: bool) -> None:
        """Read no more, or go on. Raises: UnknownStream, NotFound."""
        await self._cluster.kafka.edit(self._record(name, path).stream, name, paused=paused)

    async def remove(self, name: str, path: str) -> None:
        """End it; the stream keeps what it has. Topics that the Kafka cluster owns can be taken over still.

        Raises:
            UnknownStream, NotFound
        """
        await self._cluster.kafka.remove(self._record(name, path).stream, name)

    def _record(self, name: str, path: str) -> KafkaUpstream:
        return self._cluster.kafka.find(self._cluster.stream(path).id, name)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """A row for each stream that keeps topics of the Kafka cluster of that name. Raises: NotFound: none does."""
        found = [each for each in self._running if each.record.name == name]
        if not found:
            raise NotFound(f"no stream of cluster {self._cluster.name} keeps topics of kafka://{name}")
        return list(self._rows(found))

    def all_rows(self) -> Iterator[dict[str, Any]]:
        """Of all Kafka clusters."""
        return self._rows(list(self._running))

    def _rows(self, found: Sequence[RunningUpstream]) -> Iterator[dict[str, Any]]:
        for index, each in enumerate(found, 1):
            stream = each.stream
            if stream is not None:
                now, ailing = self._replicator.now(), self._replicator.ailment()
                yield status.row(each, self._cluster, stream, index, now, ailing)

    def lag(self, stream: Stream, topic: Topic, partition: int) -> int:
        """Offsets of a partition that the Kafka cluster has which owns the topic, and that are not here; 0 if none owns
        it."""
        if not topic.is_of_kafka:
            return 0
        found = (each for each in self._running.of(stream.id) if each.record.source == topic.owner)
        return max((each.lag_of(topic.incarnation, partition) for each in found), default=0)

    def failing(self) -> Sequence[dict[str, Any]]:
        """Those with an error, or with something that has stopped: which, what, and since when."""
        found = []
        for each in self.all_rows():
            wrong = each["errors"]
            if wrong:
                place = {"path": each["source"], "replica": each["replicaPath"]}
                what = {"code": wrong["Code"], "error": wrong["Msg"], "command": wrong["Command"]}
                found.append({**place, **what, "since": wrong["Since"], "seconds": wrong["Seconds"]})
        return found

    def upstream_rows(self, path: str) -> Sequence[Any]:
        """As `upstream list` shows those of a stream."""
        return status.rows_of(self._running.of(self._cluster.stream(path).id))


def _of(record: KafkaUpstream, stream: Stream) -> KafkaUpstream:
    return replace(record, stream=stream.id)


def check_file(config_file: str) -> None:
    """Raises: InvalidValue: it is no path that means the same tomorrow."""
    if not os.path.isabs(config_file):
        raise InvalidValue(f"-consumerconfig {config_file}: give an absolute path, of a file on the server's machine")


async def _asked(config_file: str) -> tuple[str, list[str]]:
    """The Kafka cluster's own id, and the names of its topics.

    Raises:
        InvalidValue: the file is wrong, or the brokers are too old. TryAgain, NotAllowed
    """
    kafka = await open_by_file(config_file)
    try:
        return await _described(kafka, config_file)
    finally:
        await kafka.close()


async def _described(kafka: Kafka, config_file: str) -> tuple[str, list[str]]:
    topics = [each for each in (await kafka.topics()).values() if not each.internal]
    if not kafka.cluster_id:
        raise InvalidValue(f"{config_file}: the brokers there do not say which cluster they are")
    if any(each.topic_id == ZERO_UUID for each in topics):
        raise InvalidValue(f"{config_file}: the brokers there give topics no ids; topics are kept of Kafka 2.8 on")
    return kafka.cluster_id, [each.name for each in topics]
