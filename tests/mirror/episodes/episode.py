"""One episode: mirrors of one name that run one after the other, or at once, between clusters to which all sorts of
things happen; then one in peace, after which everything must be at the destination.

All that happens is chosen by the seed, and nothing depends on how fast the machine is.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from tests.mirror.episodes.slow import SlowCluster
from tests.mirror.episodes.wanted import Wanted
from tests.mirror.fake import Log
from tests.mirror.groups.test_groups import commit
from tests.mirror.world import World
from tests.support.stepped import SteppedLoop

from fairlead.mirror.bytes.outgoing import Outgoing
from fairlead.mirror.exactly import strand
from fairlead.mirror.ports import Place
from fairlead.mirror.running.mirror import Mirror
from fairlead.model.errors import Aborted, FairleadError, Fenced
from fairlead.protocol.batch import CONTROL, TRANSACTIONAL, build_batch

PARTITIONS_MAX = 6
PEACE_SECONDS = 600.0
"""By the loop's clock: longer than every wait for something that passes."""
GROUPS = 3
USUAL_BYTES = 1_048_588
HERE = "tests.mirror.episodes.episode"


def newest_first(records: pa.RecordBatch) -> pa.RecordBatch:
    """A handler that sorts."""
    return records.take(pa.array(range(records.num_rows))[::-1])


def as_they_are(records: pa.RecordBatch) -> pa.RecordBatch:
    """A handler that changes nothing."""
    return records


class Episode:
    """What a seed chooses."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._random = random = Random(seed)
        self._folder = folder
        self._world = World()
        self._there = {topic: SlowCluster(name, random) for topic, name in self._topics()}
        self._here = self._world.b = SlowCluster("b", random)
        self._wanted = Wanted()
        self._serial = 0
        self.log: list[str] = []
        """What has happened, for whoever reads of a failure."""
        self._exactly = random.random() < 0.6
        self._prefix = random.choice(["", "", "x."])
        handlers = [None, None, None, f"{HERE}:newest_first", f"{HERE}:as_they_are"]
        self._handler = random.choice(handlers)
        self._begin = random.choice([None, None, None, "latest"])
        self._parts = {topic: random.randint(1, 3) for topic in self._there}
        self._by_key = {topic for topic in self._there if random.random() < 0.2}
        """The key deals their records, or did once."""
        self._once_each = True
        """Nothing has happened yet after which a record may come twice."""
        self._one_at_a_time = True
        """No two mirrors have sent at once, as they may without transactions where one takes over."""
        self._never: dict[str, list[bytes]] = {}
        for topic, cluster in self._there.items():
            cluster.make(topic, self._parts[topic])
        for topic in self._by_key:
            self._here.make(self._prefix + topic, random.choice([1, self._parts[topic] + 2]))

    def _topics(self) -> Sequence[tuple[str, str]]:
        return [("t", "a"), ("u", "c")][: self._random.choice([1, 1, 2])]

    def _happened(self, what: str) -> None:
        self.log.append(what)

    # ------------------------------------------------------------ what is written at the sources

    def _topic(self) -> str:
        return self._random.choice(list(self._there))

    def _log(self, topic: str, number: int) -> Log:
        return self._there[topic].made[topic].logs[number]

    def _value(self, topic: str, number: int) -> bytes:
        self._serial += 1
        return b"%s:%d:%d:" % (topic.encode(), number, self._serial) + b"x" * self._random.choice(
            [0, 0, 0, 100, 5_000, 60_000]
        )

    def _put(self) -> None:
        random, topic = self._random, self._topic()
        number = random.randrange(self._parts[topic])
        values = [self._value(topic, number) for _ in range(random.randint(1, 30))]
        kind = random.random()
        if kind < 0.6:
            self._put_plain(topic, number, values)
        else:
            self._put_transaction(topic, number, values, abort=kind > 0.8)
        self._there[topic].change()

    def _put_plain(self, topic: str, number: int, values: Sequence[bytes]) -> None:
        log, left = self._log(topic, number), list(values)
        while left:
            some = self._random.randint(1, len(left))
            log.append(build_batch([(self._key(), value) for value in left[:some]], timestamp_ms=1_000, leader_epoch=0))
            del left[:some]
        self._wanted.add((topic, number), values)
        self._happened(f"{topic} {number} gets {len(values)}")

    def _put_transaction(self, topic: str, number: int, values: Sequence[bytes], *, abort: bool) -> None:
        log = self._log(topic, number)
        first = log.end
        producer = 10_000_000 + first
        of = {"producer_id": producer, "producer_epoch": 0}
        keyed = [(self._key(), value) for value in values]
        log.append(build_batch(keyed, base_sequence=0, attributes=TRANSACTIONAL, timestamp_ms=1, **of))
        marker = struct.pack(">hh", 0, 0 if abort else 1)
        log.append(build_batch([(marker, bytes(6))], attributes=TRANSACTIONAL | CONTROL, **of))
        if abort:
            log.aborted.append((producer, first))
        else:
            self._wanted.add((topic, number), values)
        self._happened(f"{topic} {number} gets {len(values)} {'that are aborted' if abort else 'in a transaction'}")

    def _key(self) -> bytes:
        return b"k%d" % self._random.randrange(9)

    # ------------------------------------------------------------ what happens to topics and groups

    def _grow(self) -> None:
        topic = self._topic()
        if self._parts[topic] < PARTITIONS_MAX:
            self._parts[topic] += 1
            self._there[topic].made[topic].logs.append(Log())
            self._there[topic].change()
            self._happened(f"{topic} gets a partition")

    def _make_anew(self) -> None:
        """A topic of a source is deleted and made again; what groups have committed of it went with it."""
        topic = self._topic()
        cluster = self._there[topic]
        self._wanted.made_anew(topic)
        cluster.group_offsets = {
            group: {place: at for place, at in its.items() if place.topic != topic}
            for group, its in cluster.group_offsets.items()
        }
        cluster.make(topic, self._parts[topic])
        self._happened(f"{topic} is made anew")

    def _expire(self) -> None:
        topic = self._topic()
        number = self._random.randrange(self._parts[topic])
        log = self._log(topic, number)
        until = self._random.randint(log.start, log.end)
        records = self._there[topic].records(topic, number)
        self._wanted.gone(x.value for x in records if x.offset < until and x.value is not None)
        log.expire(until)
        self._there[topic].change()
        self._happened(f"{topic} {number} begins at {until} now")

    def _commit(self) -> None:
        """A group reads on."""
        topic = self._topic()
        number, group = self._random.randrange(self._parts[topic]), f"group {self._random.randrange(GROUPS)}"
        cluster, place, log = self._there[topic], Place(topic, number), self._log(topic, number)
        before = cluster.group_offsets.get(group, {}).get(place, (log.start, 0))[0]
        at = self._random.randint(max(before, log.start), log.end) if before <= log.end else log.end
        commit(cluster, group, at, place)
        self._happened(f"{group} is at {at} of {topic} {number}")

    def _delete_here(self) -> None:
        """At the destination, while no mirror runs. It is made anew in peace: a mirror that is killed before it has
        written where it begins goes on at the old positions."""
        topic = self._topic()
        to = self._prefix + topic
        del self._here.made[to]
        self._by_key.discard(topic)
        self._here.group_offsets = {
            group: {place: at for place, at in its.items() if place.topic != to}
            for group, its in self._here.group_offsets.items()
        }
        self._happened(f"{to} is deleted")

    # ------------------------------------------------------------ what goes wrong

    def _fail(self) -> None:
        share, kind = self._random.random() * 0.5, self._random.choice([Aborted, Fenced])
        self._here.fails = lambda _: kind("as the seed wants") if self._random.random() < share else None
        self._happened("transactions fail")

    def _mend(self) -> None:
        self._here.fails = lambda _: None
        self._here.refuses = lambda topic, partition, outgoing: None

    def _lower(self) -> None:
        to = self._prefix + self._topic()
        if to in self._here.made:
            most = self._random.choice([70_000, 100_000, 400_000, USUAL_BYTES])
            self._here.make_setting(to, "max.message.bytes", str(most))
            self._once_each = self._once_each and not self._by_key
            self._happened(f"{to} takes {most} bytes")

    def _refuse(self) -> None:
        mark = b":%d:" % self._random.randint(1, self._serial + 5)

        def refuses(topic: str, partition: int, outgoing: Outgoing) -> str | None:
            is_theirs = topic.removeprefix(self._prefix) in self._there
            return "as the seed wants" if is_theirs and mark in bytes(outgoing.body) else None

        self._here.refuses = refuses
        self._once_each = self._once_each and not self._by_key
        self._happened(f"{mark!r} is refused")

    def _go_away(self) -> None:
        cluster = self._random.choice([self._here, *self._there.values()])
        cluster.away = True
        asyncio.get_running_loop().call_later(self._random.uniform(0, 0.5), cluster.come_back)
        self._happened(f"{cluster.id} is away")

    def _kill_worker(self) -> None:
        engine = self._world.engine
        if engine is not None and engine.attempts:
            attempt, side = self._random.choice(list(engine.attempts.values())), self._random.choice(["reader", "sink"])
            with suppress(KeyError):  # it has not begun
                attempt.kill(side)
            self._once_each = self._once_each and self._exactly
            self._happened(f"a {side} is killed")

    # ------------------------------------------------------------ mirrors

    def _mirror(self, **given: Any) -> Mirror:
        random = self._random
        carries = random.random() < 0.4
        self._world.engine = None
        world = World(self._folder if carries else None)
        world.a, world.b, world.said = self._world.a, self._here, self._world.said
        mirror = world.mirror(
            *self._there.values(),
            on_recreated="continue",
            on_gap="continue",
            takeover=True,
            streams=random.randint(1, 4),
            exactly_once=self._exactly,
            queue_records=random.choice([10, 10_000]),
            prefix=self._prefix,
            begin=self._begin,
            handler=self._handler,
            **given,
        )
        self._world.engine = world.engine
        self._happened(f"a mirror begins{' with workers' if carries else ''}{' --once' if given.get('once') else ''}")
        return mirror

    async def _in_peace(self) -> Mirror:
        """Nothing goes wrong, and all is mirrored."""
        self._mend()
        for topic in self._there:
            if self._prefix + topic in self._here.made:
                self._here.make_setting(self._prefix + topic, "max.message.bytes", str(USUAL_BYTES))
        for cluster in (self._here, *self._there.values()):
            cluster.come_back()
        mirror = self._mirror(once=True)
        async with asyncio.timeout(PEACE_SECONDS):
            await mirror.run()
        assert not mirror.tally.unacknowledged
        return mirror

    async def _in_trouble(self) -> None:
        """A mirror runs, and things happen to it, until it is killed, taken over or ended."""
        mirror = self._mirror(**({"once": True} if self._random.random() < 0.1 else {}))
        task = asyncio.create_task(mirror.run())
        for _ in range(self._random.randint(0, 12)):
            await self._a_while()
            self._random.choices(*zip(*self._happens(), strict=True))[0]()
        match self._random.random():
            case x if x < 0.5:
                task.cancel()
                self._once_each = self._once_each and self._exactly
                self._happened("it is killed")
            case x if x < 0.65:
                self._once_each = self._once_each and self._exactly
                self._one_at_a_time = self._one_at_a_time and self._exactly
                self._happened("another one takes over")
                await self._beside(task)
            case _:
                for cluster in (self._here, *self._there.values()):
                    cluster.come_back()
                mirror.stop()
                self._happened("it is to end")
        await self._over(task)

    async def _beside(self, task: asyncio.Task[None]) -> None:
        try:
            await self._in_trouble()
        finally:
            task.cancel()
            await self._over(task)

    async def _over(self, task: asyncio.Task[None]) -> None:
        async with asyncio.timeout(PEACE_SECONDS):
            (ended,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(ended, FairleadError):
            self._once_each = self._once_each and self._exactly
            self._happened(f"it ended: {ended}")
        elif ended is not None and not isinstance(ended, asyncio.CancelledError):
            raise ended

    async def _a_while(self) -> None:
        if self._random.random() < 0.4:
            await asyncio.sleep(self._random.choice([0.001, 0.01, 0.03, 0.1]))
        else:
            for _ in range(self._random.choice([0, 1, 5, 20, 100])):
                await asyncio.sleep(0)

    def _happens(self) -> Sequence[tuple[Callable[[], None], float]]:
        """What may happen while a mirror runs, and how often."""
        return [
            (self._put, 8),
            (self._commit, 2),
            (self._fail, 2),
            (self._mend, 2),
            (self._lower, 1),
            (self._refuse, 1),
            (self._go_away, 1.5),
            (self._grow, 0.6),
            (self._kill_worker, 1.5),
            (self._make_anew, 0.4),
            (self._expire, 0.5),
        ]

    async def play(self) -> None:
        """Raises: AssertionError; what a mirror should not."""
        if self._begin is not None:
            self._put()
            for lives in self._wanted.lives.values():
                lives[-1].clear()
        await self._in_peace()
        for _ in range(self._random.randint(2, 6)):
            for _ in range(self._random.randint(0, 4)):
                self._put()
            match self._random.random():
                case x if x < 0.06:
                    self._make_anew()
                case x if x < 0.14:
                    self._expire()
                case x if x < 0.2 and self._begin is None:
                    self._delete_here()
                    await self._in_peace()
            await self._in_trouble()
        for topic, count in self._parts.items():
            for number in range(count):
                log = self._log(topic, number)
                at = self._random.randint(log.start, log.end)
                commit(self._there[topic], f"last {number}", at, Place(topic, number))
        mirror = await self._in_peace()
        self._check(mirror)

    # ------------------------------------------------------------ what must hold

    def _found(self, topic: str) -> Mapping[int, Sequence[bytes]]:
        made = self._here.made.get(self._prefix + topic)
        numbers = range(len(made.logs)) if made is not None else ()
        values = {number: self._here.values(self._prefix + topic, number) for number in numbers}
        return {number: [value for value in its if value is not None] for number, its in values.items()}

    def _check(self, mirror: Mirror) -> None:
        assert not mirror.tally.stops, f"stands still: {dict(mirror.tally.stops)}"
        for topic in self._there:
            found = self._found(topic)
            self._wanted.check_all_there(topic, found)
            if self._once_each:
                self._wanted.check_once(found)
            if topic not in self._by_key and self._handler != f"{HERE}:newest_first":
                self._wanted.check_order(topic, found)
            if self._one_at_a_time:
                self._check_groups(topic)
        for cluster in (self._here, *self._there.values()):
            assert cluster.open == 0, f"{cluster.id}: {cluster.open} feeds and producers are open"

    def _check_groups(self, topic: str) -> None:
        """A group that goes on at the destination reads there what it has not read."""
        cluster, to = self._there[topic], self._prefix + topic
        source = {
            record.value: (number, record.offset)
            for number in range(self._parts[topic])
            for record in cluster.records(topic, number)
        }
        for group, commits in cluster.group_offsets.items():
            read = {place.partition: at[0] for place, at in commits.items() if place.topic == topic}
            for place, (at, _) in self._here.group_offsets.get(group, {}).items():
                if place.topic != to:
                    continue
                records = self._here.records(to, place.partition)
                end = self._here.made[to].logs[place.partition].end
                assert at <= end, f"{group} is at {at} of {place}, which ends at {end}"
                ahead = {record.value for record in records if record.offset >= at}
                for record in records:
                    number, offset = source.get(record.value, (-1, -1))
                    if offset >= read.get(number, 1 << 60) and record.value not in ahead:
                        raise AssertionError(
                            f"{group} is at {at} of {place} and skips {record.value!r:.40}, which is at {offset} of "
                            f"partition {number}, where it has read up to {read[number]}"
                        )


def play(seed: int, folder: Path) -> None:
    """Raises: AssertionError: something was lost, doubled, out of order or skipped; or what a mirror should not."""
    loop = SteppedLoop(sockets=True)
    episode: Episode | None = None
    quick = patch.multiple(strand, TRANSACTION_SECONDS=0.005, IDLE_SECONDS=0.02)
    try:
        with quick:
            episode = Episode(seed, folder)
            loop.run(episode.play())
        for error in loop.unheard():
            raise error
    except BaseException as error:
        happened = "" if episode is None else "; ".join(episode.log)
        error.add_note(f"seed {seed}: again with FAIRLEAD_TEST_SEEDS={seed}:1; {happened}")
        raise
    finally:
        loop.close()
