"""A client with a fetch session, as Java's: it says only what has changed and remembers what it is told (KIP-227)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from tests.broker.handlers.asking import Asker

FETCH = 1
BY_NAME, BY_ID = 12, 17
"""Versions of Fetch."""
AMPLE = 50_000_000


class Place(NamedTuple):
    """A partition as a client names it: a topic's name, or its id in 16 bytes."""

    topic: str | bytes
    partition: int


class Told(NamedTuple):
    """What an answer says of a partition."""

    error: int
    end: int
    start: int
    records: bytes


async def ask(
    asker: Asker,
    offsets: Mapping[Place, int],
    *,
    session: int = 0,
    epoch: int = -1,
    forgotten: Iterable[Place] = (),
    version: int = BY_NAME,
    wait_seconds: float = 0,
    max_bytes: int = AMPLE,
) -> Any:
    """The answer to one Fetch, of a session or without."""
    topics: dict[str | bytes, list[Any]] = {}
    for place, offset in offsets.items():
        part = {"partition": place.partition, "fetch_offset": offset, "partition_max_bytes": AMPLE}
        topics.setdefault(place.topic, []).append(part)
    gone: dict[str | bytes, list[int]] = {}
    for place in forgotten:
        gone.setdefault(place.topic, []).append(place.partition)
    replica = {"replica_id": -1} if version < 15 else {}
    return await asker.ask(
        FETCH,
        version,
        **replica,
        max_wait=timedelta(seconds=wait_seconds),
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=session,
        session_epoch=epoch,
        topics=[{**_key(topic), "partitions": parts} for topic, parts in topics.items()],
        forgotten_topics_data=[{**_key(topic), "partitions": parts} for topic, parts in gone.items()],
    )


def _key(topic: str | bytes) -> dict[str, Any]:
    return {"topic": topic} if isinstance(topic, str) else {"topic_id": UUID(bytes=topic)}


def told_by(answer: Any) -> dict[Place, Told]:
    """What an answer says, by partition."""
    assert answer.error_code == ErrorCode.none
    found: dict[Place, Told] = {}
    for topic in answer.responses:
        key = topic.topic if hasattr(topic, "topic") else topic.topic_id.bytes
        for part in topic.partitions:
            place = Place(key, part.partition_index)
            assert place not in found, "named twice in one answer"
            found[place] = Told(part.error_code, part.high_watermark, part.log_start_offset, bytes(part.records or b""))
    return found


class SessionClient:
    """One client and its session."""

    def __init__(self, asker: Asker, version: int = BY_NAME) -> None:
        self.asker = asker.another_connection()
        self.version = version
        self.session = 0
        self.epoch = 0
        self.offsets: dict[Place, int] = {}
        """What it wants to read, and from where."""
        self.known: dict[Place, Told] = {}
        """What it was told last of each in this session, without records."""
        self._said: dict[Place, int] = {}

    async def poll(self, **options: Any) -> dict[Place, Told]:
        """One request that says what has changed; what its answer says."""
        said = self._said if self.epoch else {}
        changed = {place: offset for place, offset in self.offsets.items() if said.get(place) != offset}
        forgotten = [place for place in said if place not in self.offsets]
        answer = await ask(
            self.asker,
            changed,
            session=self.session,
            epoch=self.epoch,
            forgotten=forgotten,
            version=self.version,
            **options,
        )
        found = told_by(answer)
        assert found.keys() <= self.offsets.keys()
        assert self.epoch == 0 or answer.session_id in {0, self.session}
        self.session, self.epoch = answer.session_id, self.epoch + 1 if answer.session_id else 0
        self._said = dict(self.offsets)
        told = {place: told._replace(records=b"") for place, told in found.items()}
        self.known = {place: known for place, known in (self.known | told).items() if place in self.offsets}
        return found
