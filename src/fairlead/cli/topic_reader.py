"""Reads one topic with an ordinary Kafka client, and says what such a client's errors mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fairlead.cli.output import print_error
from fairlead.model.errors import BadRequest, TryAgain, UnknownTopic
from fairlead.process.interrupts import ending_at_once

WAIT_SECONDS = 15.0
"""For an answer of a broker; then it is said that there is none."""
POLL_SECONDS = 0.5
"""Of one poll of librdkafka; Ctrl-C is heard between two."""
COMMIT_MS = 6_000
"""A commit waits so long for a server that has gone, then the closing does; librdkafka takes it from the session of a
member, which this reader never is."""


def client_settings() -> dict[str, Any]:
    """librdkafka logs nothing by itself: what matters is raised."""
    return {"log_level": 0, "client.id": "fairlead", "broker.address.family": "any"}


class TopicReader:
    """Reads all partitions of one topic, with a group's committed offsets or without."""

    def __init__(self, bootstrap: str, topic: str, group: str | None, from_beginning: bool) -> None:
        with ending_at_once():
            from confluent_kafka import Consumer

        self._topic = topic
        self._bootstrap = bootstrap
        self._group = group
        self._stored = False
        self._lost: Any = None
        self._start = "earliest" if from_beginning or group else "latest"
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group or "fairlead-consume",
                "session.timeout.ms": COMMIT_MS,
                "enable.auto.commit": group is not None,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": self._start,
                "error_cb": self._note,
                **client_settings(),
            }
        )

    def records(self, follow: bool) -> Iterator[Any]:
        """Records in the order of arrival; ends with the last one unless `follow`."""
        from confluent_kafka import KafkaError

        partitions = self._partitions()
        self._consumer.assign(self._positions(partitions))
        open_ones = set(partitions)
        while open_ones or follow:
            message = self._consumer.poll(POLL_SECONDS)
            if message is None:
                self._check_connected(follow)
                continue
            self._lost = None
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                open_ones.discard(message.partition())
            else:
                raise client_error(error, self._topic)

    def _note(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._lost = error

    def _check_connected(self, follow: bool) -> None:
        """Who follows waits for the server to come back; who wants what is there now is told."""
        if self._lost is not None and not follow:
            raise TryAgain(f"the Kafka listener at {self._bootstrap} answers no more: {self._lost.str()}")

    def done(self, message: Any) -> None:
        """The record was printed: its group goes on after it. A record may be seen twice, none is lost."""
        if self._group is not None:
            self._consumer.store_offsets(message)
            self._stored = True

    def close(self) -> bool:
        """Commit what is done, and end; whether it is committed. If it is not, that is said here: why the reading ended
        may have to be said too."""
        try:
            refused = self._commit() if self._stored else None
        finally:
            self._consumer.close()
        if refused is not None:
            print_error(
                f"group {self._group} has not committed the last records: {refused.str()}; they will be seen again"
            )
        return refused is None

    def _commit(self) -> Any:
        """Answers the error, if there is one. That nothing is left to commit is none: it is done by itself at times."""
        from confluent_kafka import KafkaError, KafkaException

        try:
            committed = self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            return None if error.args[0].code() == KafkaError._NO_OFFSET else error.args[0]
        return next((each.error for each in committed if each.error is not None), None)

    def _partitions(self) -> list[int]:
        from confluent_kafka import KafkaException

        try:
            metadata = self._consumer.list_topics(self._topic, WAIT_SECONDS).topics[self._topic]
        except KafkaException as error:
            raise TryAgain(f"no Kafka listener answers at {self._bootstrap}: {error.args[0].str()}") from error
        if metadata.error is not None:
            raise client_error(metadata.error, self._topic)
        return sorted(metadata.partitions)

    def _positions(self, partitions: Iterable[int]) -> list[Any]:
        from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException, TopicPartition

        if self._group is None:
            offset = OFFSET_BEGINNING if self._start == "earliest" else OFFSET_END
            return [TopicPartition(self._topic, number, offset) for number in partitions]
        wanted = [TopicPartition(self._topic, number) for number in partitions]
        try:
            found = self._consumer.committed(wanted, WAIT_SECONDS)
        except KafkaException as error:
            raise TryAgain(
                f"{self._bootstrap} does not say what group {self._group} has committed: {error.args[0].str()}"
            ) from error
        return [TopicPartition(p.topic, p.partition, p.offset if p.offset >= 0 else OFFSET_BEGINNING) for p in found]


def client_error(error: Any, topic: str) -> Exception:
    """A Kafka client's error in our words."""
    from confluent_kafka import KafkaError

    if error.code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}:
        return UnknownTopic(f"topic {topic} does not exist")
    if error.code() == KafkaError.POLICY_VIOLATION:
        return BadRequest(
            f"topic {topic} is owned by another cluster; `fairlead stream topic info` names it, and "
            "`fairlead cluster list` shows its addresses"
        )
    if error.code() == KafkaError._UNKNOWN_PARTITION:
        return no_partition(topic)
    if error.code() == KafkaError.INVALID_RECORD:  # librdkafka does not hand on the server's words
        return BadRequest(f"topic {topic} is compacted, so each record needs a key; add --key or --key-separator")
    return BadRequest(f"topic {topic}: {error.str()}")


def no_partition(topic: str) -> BadRequest:
    """The topic has no partition of the number that was given."""
    return BadRequest(f"topic {topic} has no such partition; `fairlead stream topic info` lists them")
