"""Reads partitions, each from its leader, and hands out what comes, as views of the answers.

A leader is asked over one connection and one session. While its last answer has not been taken it is asked nothing;
once it is taken, it is asked again, behind the whole batches of the answer, while the taker works.

Who leads what is asked again by age too: a leader that is cut off from the cluster answers on, and has nothing new.

What passes by itself is waited for: leaders that move, brokers and clusters that are away. What does not is handed out
as an error; that partition stands until it is assigned again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from fairlead.kafka.asking.metadata import Metadata
from fairlead.kafka.asking.seeking import Seeker
from fairlead.kafka.configuration.settings import FetchSettings
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.connecting.connection import ANSWER_BYTES_MAX
from fairlead.kafka.errors import OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_ID, may_pass, name_of
from fairlead.kafka.fetching.feed import Feed, Found, Reading
from fairlead.kafka.fetching.positions import reach_of
from fairlead.kafka.values import NO_EPOCH, TopicPartition
from fairlead.model.errors import FairleadError
from fairlead.protocol.client_fetch import Answered
from fairlead.protocol.wire import ZERO_UUID

_NOT_THERE_MAX = 5
"""So many answers in a row must say that a topic is not there: a broker that has just begun may not know it yet."""
_NONE = memoryview(b"")


class Fetched(NamedTuple):
    """What came of one partition."""

    place: TopicPartition
    position: int
    """Where the fetch began; the first batch may begin before it."""
    records: memoryview
    """Batches as they lie in the log; the last may be cut. Memory of the answer, for as long as it is referred to."""
    aborted: Sequence[tuple[int, int]] = ()
    """Producer id and first offset of each aborted transaction in `records`."""
    high_watermark: int = -1
    last_stable: int = -1
    log_start: int = -1
    error: int = 0
    """Kafka's code; nothing more comes of the partition until it is assigned again."""
    detail: str = ""
    diverging: tuple[int, int] | None = None
    """The log went on otherwise: the last epoch that is the same, and where it ends."""


class Fetcher:
    """One reader of a set of partitions."""

    def __init__(self, brokers: Brokers, metadata: Metadata, settings: FetchSettings, *, committed: bool) -> None:
        self._brokers = brokers
        self._metadata = metadata
        self._settings = settings
        self._committed = committed
        self._readings: dict[TopicPartition, Reading] = {}
        self._feeds: dict[int, Feed] = {}
        self._arrived: deque[Feed] = deque()
        self._refused: list[Fetched] = []
        self._news = asyncio.Event()
        self._fresh = asyncio.get_running_loop().create_task(self._keep_fresh(), name="kafka-fetch-leaders")
        self._seeker: Seeker[Reading] = Seeker(metadata, brokers.settings, self._settle, self._refuse)

    @property
    def down(self) -> str | None:
        """What it waits for; None if all answer."""
        return self._seeker.trouble

    def position(self, place: TopicPartition) -> int:
        """The offset that is asked for next. Raises: KeyError: the partition is not assigned."""
        return self._readings[place].offset

    def assign(self, place: TopicPartition, offset: int, epoch: int = NO_EPOCH, topic_id: bytes | None = None) -> None:
        """Read a partition from an offset on, or go on there. `epoch` is that of the record before: a leader whose log
        differs below the offset says so. With `topic_id` no other topic of that name is read."""
        self.remove(place)
        pinned = topic_id if topic_id != ZERO_UUID else None
        reading = self._readings[place] = Reading(place, offset, epoch, pinned, self._settings.partition_bytes)
        self._seeker.seek(reading, "")

    def pause(self, place: TopicPartition) -> None:
        """Ask for no more of it; what came and was not taken is asked for again later."""
        reading = self._readings[place]
        reading.paused = True
        if reading.feed is not None:
            reading.feed.drop(reading)

    def resume(self, place: TopicPartition) -> None:
        """Go on."""
        reading = self._readings[place]
        reading.paused = False
        if reading.feed is not None:
            reading.feed.ask(reading)

    def remove(self, place: TopicPartition) -> None:
        """Read it no more."""
        reading = self._readings.pop(place, None)
        if reading is not None:
            self._leave(reading)
            self._seeker.drop(place)
            self._refused = [each for each in self._refused if each.place != place]

    async def next(self) -> list[Fetched]:
        """What came next: an answer of one leader, or errors; never nothing."""
        while True:
            if self._refused:
                refused, self._refused = self._refused, []
                return refused
            if self._arrived:
                fetched = self._taken(self._arrived.popleft())
                if fetched:
                    return fetched
                continue
            self._news.clear()
            await self._news.wait()

    async def close(self) -> None:
        """Ask no more, and end its connections."""
        self._fresh.cancel()
        await asyncio.wait([self._fresh])
        await self._seeker.close()
        for feed in self._feeds.values():
            await feed.close()

    # ------------------------------------------------------------ from feeds

    def arrived(self, feed: Feed) -> None:
        """A leader has answered."""
        self._arrived.append(feed)
        self._news.set()

    def failed(self, feed: Feed, why: str) -> None:
        """A leader does not answer."""
        for reading in list(feed.readings.values()):
            self._lose(reading, why)

    def _taken(self, feed: Feed) -> list[Fetched]:
        found = feed.take()
        fetched = [self._fetched(feed, each) for each in found if each.reading.feed is feed and not each.reading.paused]
        feed.go_on()
        return [each for each in fetched if each is not None]

    def _fetched(self, feed: Feed, found: Found) -> Fetched | None:
        reading, asked_offset, answered = found
        if reading.offset != asked_offset:
            return None  # assigned anew while the answer was on its way
        if answered.error:
            return self._troubled(reading, answered)
        if reading.failures:
            self._seeker.goes_on(reading)
        position = reading.offset
        if answered.diverging is not None:
            self._leave(reading)
            return _handed_out(reading.place, position, answered, detail="the log went on otherwise")
        reach = reach_of(answered.records, position)
        if reach.next_offset == position and len(answered.records):
            self._ask_for_more(reading, reach.cut_bytes)
            return None
        if reach.next_offset != position:
            reading.offset, reading.epoch = reach.next_offset, reach.epoch
            feed.ask(reading)
        return _handed_out(reading.place, position, answered)

    def _ask_for_more(self, reading: Reading, cut_bytes: int) -> None:
        """The answer had no whole batch."""
        if reading.max_bytes < cut_bytes <= ANSWER_BYTES_MAX:
            reading.max_bytes = cut_bytes
            if reading.feed is not None:
                reading.feed.ask(reading)
        else:
            self._lose(reading, f"{reading.place}: the broker sends no batch at offset {reading.offset}")

    def _troubled(self, reading: Reading, answered: Answered) -> Fetched | None:
        """An error of one partition: what passes is waited for."""
        if answered.error != OFFSET_OUT_OF_RANGE and may_pass(answered.error):
            self._lose(reading, f"{reading.place}: {name_of(answered.error)}")
            return None
        self._leave(reading)
        return _handed_out(reading.place, reading.offset, answered, detail=name_of(answered.error))

    # ------------------------------------------------------------ who leads what

    def _leave(self, reading: Reading) -> None:
        if reading.feed is not None:
            reading.feed.leave(reading)

    def _lose(self, reading: Reading, why: str) -> None:
        self._leave(reading)
        self._seeker.seek(reading, why)

    async def _settle(self, reading: Reading) -> None:
        """Read on from whoever leads the partition now."""
        place = reading.place
        if self._readings.get(place) is not reading:
            return
        if self._is_missing(reading):
            self._missed(reading)
            return
        reading.missing = 0
        leader = self._metadata.leader(place)
        if leader is None:
            self._seeker.seek(reading, f"{place} has no leader")
            return
        reading.leader_epoch = leader.epoch
        feed = self._feeds.get(leader.leader)
        if feed is None:
            feed = Feed(self, self._brokers, leader.leader, self._settings, committed=self._committed)
            self._feeds[leader.leader] = feed
        feed.add(reading)

    async def _keep_fresh(self) -> None:
        settings = self._brokers.settings
        pause = max(settings.metadata_max_age_ms, settings.retry_backoff_max_ms) / 1000
        while True:
            await asyncio.sleep(pause)
            with suppress(FairleadError):  # whoever finds out that nobody answers says so
                await self._metadata.renew(place.topic for place in self._readings)
            for reading in [each for each in self._readings.values() if self._has_moved(each)]:
                self._leave(reading)
                self._seeker.seek(reading, "")

    def _has_moved(self, reading: Reading) -> bool:
        """Whether it is read from a leader that metadata does not name any more."""
        leader = self._metadata.leader(reading.place)
        if reading.feed is None or leader is None:
            return False
        return (leader.leader, leader.epoch) != (reading.feed.node, reading.leader_epoch)

    def _is_missing(self, reading: Reading) -> bool:
        """Whether metadata lacks the topic or has another one of its name."""
        topic = self._metadata.topic(reading.place.topic)
        if topic is None or reading.place.partition >= len(topic.partitions):
            return True
        if reading.topic_id is None and topic.topic_id != ZERO_UUID:
            reading.topic_id = topic.topic_id
        return topic.topic_id not in (ZERO_UUID, reading.topic_id)

    def _missed(self, reading: Reading) -> None:
        reading.missing += 1
        if reading.missing < _NOT_THERE_MAX:
            self._seeker.seek(reading, f"{reading.place} is not there")
            return
        self._seeker.drop(reading.place)
        self._refuse(reading, UNKNOWN_TOPIC_ID, ": it was deleted, or another topic has its name now")

    def _refuse(self, reading: Reading, error: int, why: str = "") -> None:
        """The partition stands."""
        detail = name_of(error) + why
        self._refused.append(Fetched(reading.place, reading.offset, _NONE, error=error, detail=detail))
        self._news.set()


def _handed_out(place: TopicPartition, position: int, answered: Answered, detail: str = "") -> Fetched:
    return Fetched(
        place,
        position,
        answered.records,
        answered.aborted,
        answered.high_watermark,
        answered.last_stable,
        answered.log_start,
        answered.error,
        detail,
        answered.diverging,
    )
