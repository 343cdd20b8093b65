"""What became of records on their way: lost, doubled, changed, out of order."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from tests.crash.mirrors.load import STAMP, Topic
from tests.support.waiting import WAIT_SECONDS


class Seen(NamedTuple):
    """A record, small: hours of them are held against each other."""

    number: int
    content: int
    """Hash of key, value, time and headers."""
    key: bytes | None
    """Of compacted topics."""
    tombstone: bool


@dataclass
class Verdict:
    """Of all topics of a run."""

    records: int = 0
    twice: int = 0
    """At the source: it has taken again what was sent again, and each of them is to be mirrored."""
    lost: list[str] = field(default_factory=list)
    doubled: int = 0
    """By the mirror, without those of topics whose records are old."""
    doubled_old: int = 0
    steps: dict[str, list[str]] = field(default_factory=dict)
    """By partition: where the order goes back, once for each time that something is mirrored again. Without those of
    the source."""
    wrong: list[str] = field(default_factory=list)
    """What else is not as it should be."""

    def line(self) -> str:
        doubled = f"doubled {self.doubled:,} (of old ones {self.doubled_old:,})"
        records = f"records {self.records:,} ({self.twice:,} of them again at the source)"
        return f"{records}, lost {len(self.lost)}, {doubled}, wrong {len(self.wrong)}"


def verdict(source: str, target: str, topics: Sequence[Topic]) -> Verdict:
    """Hold all that both ends have against each other."""
    found = Verdict()
    for topic in topics:
        for partition in range(topic.partitions):
            there, here = (list(_read(end, topic, partition)) for end in (source, target))
            compare(topic, partition, there, here, found)
    return found


def compare(topic: Topic, partition: int, there: Sequence[Seen], here: Sequence[Seen], found: Verdict) -> None:
    """Hold one partition of the source (`there`) against its copy, and add what is found."""
    where = f"{topic.name}-{partition}"
    found.records += len(there)
    if topic.compacted:
        _check_compacted(where, there, here, found)
    else:
        _check(where, there, here, found, old=topic.old)
    steps = list((Counter(_steps(here)) - Counter(_steps(there))).elements())
    if steps:
        found.steps[where] = steps


def _steps(records: Sequence[Seen]) -> Iterator[str]:
    return (f"{one.number} → {other.number}" for one, other in pairwise(records) if other.number <= one.number)


def _check(where: str, there: Sequence[Seen], here: Sequence[Seen], found: Verdict, *, old: bool) -> None:
    """Each record as often as at the source at least, all else equal, in the source's order."""
    written = {each.number: each for each in there}
    first: dict[int, Seen] = {}
    for each in here:
        first.setdefault(each.number, each)
        if each.number in written and each.content != written[each.number].content:
            found.wrong.append(f"{where}: {each.number} is another record")
    times, times_here = (Counter(each.number for each in records) for records in (there, here))
    found.twice += len(there) - len(written)
    found.lost += [f"{where}: {number}" for number in times - times_here]
    found.wrong += [f"{where}: {number} is only at the destination" for number in first.keys() - written.keys()]
    if [number for number in first if number in written] != [number for number in written if number in first]:
        found.wrong.append(f"{where}: out of order")
    doubled = (Counter({number: times_here[number] for number in written}) - times).total()
    if old:
        found.doubled_old += doubled
    else:
        found.doubled += doubled


def _check_compacted(where: str, there: Sequence[Seen], here: Sequence[Seen], found: Verdict) -> None:
    """The newest record of each key is the source's; what the source has removed since may be there."""
    newest = {each.key: each for each in there}
    copied = {each.key: each for each in here}
    for key, each in newest.items():
        copy = copied.get(key)
        if copy is None or copy.number < each.number:
            found.lost.append(f"{where}: {each.number}")
        elif copy.content != each.content:
            found.wrong.append(f"{where}: {each.number} is another record")
    for key in copied.keys() - newest.keys():
        if not copied[key].tombstone:
            found.wrong.append(f"{where}: {copied[key].number} was removed at the source")


def _read(bootstrap: str, topic: Topic, partition: int) -> Iterator[Seen]:
    """What a reader of committed records sees, from the start to the end."""
    settings = {"group.id": "nobody", "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, "check.crcs": True, **settings})
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        consumer.assign([TopicPartition(topic.name, partition, OFFSET_BEGINNING)])
        while time.monotonic() < deadline:
            for message in consumer.consume(10_000, 0.2):
                error = message.error()
                if error is None:
                    yield _seen(message, compacted=topic.compacted)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    return
        raise TimeoutError(f"{topic.name}-{partition} of {bootstrap} is not read to its end")
    finally:
        consumer.close()


def _seen(message: Message, *, compacted: bool) -> Seen:
    headers = tuple(message.headers() or ())
    number = next(int(value or b"-1") for name, value in headers if name == STAMP)
    key, value = message.key(), message.value()
    content = hash((key, value, message.timestamp(), headers))
    return Seen(number, content, bytes(key) if compacted and key is not None else None, value is None)
