"""A consumer group reads half of a topic at one site, and the rest at another, where its committed offsets have come.

    python examples/group_fails_over.py TOPIC HOST:PORT HOST:PORT

The topic is one of a stream that is replicated from the first site to the second. It has one partition, and the group
has not read its records yet. Nothing but `bootstrap.servers` changes.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition


def member(bootstrap: str) -> Consumer:
    """A member of the group, which commits only when told."""
    settings = {"group.id": "harbour-office", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    return Consumer({"bootstrap.servers": bootstrap, **settings})


def read(consumer: Consumer, topic: str, count: int) -> list[tuple[int | None, bytes | None]]:
    """Join, read so many records, commit, and leave."""
    consumer.subscribe([topic])
    found: list[tuple[int | None, bytes | None]] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), timeout=60)
        if not messages:
            raise SystemExit(f"{len(found)} of {count} records came, and no more for 60 s")
        for message in messages:
            if (error := message.error()) is not None:
                raise KafkaException(error)
            found.append((message.offset(), message.value()))
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def wait_until_known(consumer: Consumer, topic: str, offset: int, seconds: float = 60) -> None:
    """Commits go over the link once a second; whoever loses a site without warning reads the last second again."""
    deadline = time.monotonic() + seconds
    while consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset < offset:
        if time.monotonic() > deadline:
            raise SystemExit(f"after {seconds:g} s the second site does not know what the group has committed")
        time.sleep(0.1)


def main(topic: str, first: str, second: str) -> None:
    """Print what the group reads, and where."""
    here = member(first)
    low, high = here.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    half = (high - low) // 2
    for offset, value in read(here, topic, half):
        print(first, offset, value)
    there = member(second)
    wait_until_known(there, topic, low + half)
    for offset, value in read(there, topic, high - low - half):
        print(second, offset, value)


if __name__ == "__main__":
    main(*sys.argv[1:])
