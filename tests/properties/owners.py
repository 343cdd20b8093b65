"""What people and programs ask of the owners of topics, and what producers send: each method is one action."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.properties.model import Place, Site
from tests.properties.shape import DIVERGED, IDS
from tests.properties.sites import World
from tests.support.batches import produce

from fairlead.model.errors import FairleadError, NotOwner, OutOfOrderSequence
from fairlead.protocol.batch import build_batch
from fairlead.streamlog.requests.deletion import delete_records
from fairlead.streamlog.requests.ownership import hand_over, take_over
from fairlead.streamlog.requests.produce import ProduceResult
from fairlead.streamlog.requests.topics import create_topic, delete_topic, set_configs, set_partitions
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft

LIVES = {"retention.ms": (None, None, None, "0", "1500"), "retention.bytes": (None, None, None, "0", "150")}
TRIES = 3
"""Of one action; a batch that was not acknowledged is sent again by the next one."""
PARTITIONS_MAX = 4


@dataclass
class Producer:
    """An idempotent producer of one partition."""

    id: int
    sequence: int = 0
    unanswered: list[bytes] | None = None
    """Values of the batch that may or may not have been written."""
    cuts: int = 0
    """How often the partition had been cut when that batch was made."""
    last: tuple[int, int] | None = None
    """Epoch and offset of its newest batch that was acknowledged."""


def topics_of(site: Site, *, owned: bool) -> list[Topic]:
    """Those that the site owns, or holds for others; no diverged ones, which nobody writes."""
    topics = site.log.announced.state.topics()
    return [topic for topic in topics if (topic.owner == site.stream_id) is owned and DIVERGED not in topic.name]


def _life(choose: Random) -> dict[str, str | None]:
    return {key: choose.choice(values) for key, values in LIVES.items()}


class Owners:
    """Acts on topics, at the sites that own them and, in vain, at others."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.gives_up = False
        """A producer does not send again what a cut may have made dead: it may be claimed, and would come twice."""
        self._producers: dict[tuple[str, Place], Producer] = {}
        self._ids = 0

    def create(self, site: Site, name: str, choose: Random) -> None:
        """A topic is made."""
        if site.log.announced.state.by_name(name) is None:
            partitions, limits = choose.randint(1, 2), _life(choose)
            configs = {key: limit for key, limit in limits.items() if limit is not None}
            self._world.run(site, lambda d: create_topic(d, name, partitions, configs))

    def grow(self, site: Site, topic: Topic, _: Random) -> None:
        """A topic gets one more partition."""
        if topic.partitions < PARTITIONS_MAX:
            self._world.run(site, lambda d: set_partitions(d, topic.name, topic.partitions + 1))

    def delete(self, site: Site, topic: Topic, _: Random) -> None:
        """A topic is deleted."""
        self._world.run(site, lambda d: delete_topic(d, topic.name))

    def delete_records(self, site: Site, topic: Topic, choose: Random) -> None:
        """The first records of a partition are deleted, some or all."""
        partition = choose.randrange(topic.partitions)
        state = site.log.announced.state.partition(topic.number, partition)
        more = choose.randrange(6)
        offset = min(state.log_start + more, state.end) if more else -1
        asked = topic.epoch, state.end if offset < 0 else offset
        self._world.model.deletions.setdefault((topic.incarnation, partition), set()).add(asked)
        found = self._world.run(site, lambda d: delete_records(d, topic.number, partition, offset))
        if isinstance(found, int):
            assert found >= offset
            self._world.model.deleted_to[topic.incarnation, partition] = topic.epoch, found

    def limit(self, site: Site, topic: Topic, choose: Random) -> None:
        """A topic gets a life of its own, or loses it."""
        limits = _life(choose)
        self._world.run(site, lambda d: set_configs(d, topic.name, limits))

    def produce(self, site: Site, topic: Topic, choose: Random) -> None:
        """An idempotent producer sends a batch, and sends it again until it is acknowledged, or until the next time."""
        self._send(site, topic, choose.randrange(topic.partitions), choose)

    def follow(self, site: Site, topic: Topic, choose: Random) -> None:
        """A producer that has written the topic at another site goes on here, with what it was not answered first."""
        found = [key for key in self._producers if key[0] != site.name and key[1][0] == topic.incarnation]
        found = [key for key in found if key[1][1] < topic.partitions]
        if found:
            at, place = choose.choice(found)
            self._world.note("follow", at, site.name, topic.name)
            self._producers[site.name, place] = self._producers.pop((at, place))
            self._send(site, topic, place[1], choose)

    def _send(self, site: Site, topic: Topic, partition: int, choose: Random) -> None:
        place = (topic.incarnation, partition)
        producer = self._producers.get((site.name, place)) or self._new_producer(site, place)
        cuts = len(site.log.announced.state.cuts_of(topic.number, partition))
        if self.gives_up and producer.unanswered is not None and cuts != producer.cuts:
            producer = self._new_producer(site, place)
        if producer.unanswered is None:
            producer.cuts = cuts
            producer.unanswered = self._world.new_values(choose.randint(1, 3))
        values = producer.unanswered
        batch = build_batch(
            [(None, value) for value in values],
            producer_id=producer.id,
            producer_epoch=0,
            base_sequence=producer.sequence,
        )
        for _ in range(TRIES):
            result = self._world.run(site, lambda d: produce(d, topic.number, partition, batch))
            if isinstance(result, ProduceResult):
                self._world.model.acknowledge(place, result.base_offset, values)
                producer.last = self._check_lives(site, place, result.base_offset, values[0]), result.base_offset
                producer.sequence += len(values)
                producer.unanswered = None
                return
            if isinstance(result, OutOfOrderSequence):
                was_cut = site.log.announced.state.cuts_of(topic.number, partition)  # and with it what was sent before
                model = self._world.model
                is_torn = topic.incarnation in model.rolled_back or (topic.incarnation, site.name) in model.deleted_at
                is_whole = producer.last is None or model.is_on_path(place, topic.epoch, *producer.last)
                assert was_cut or is_torn or not is_whole, "a producer was refused that kept its order"
                self._new_producer(site, place)
                return

    def _check_lives(self, site: Site, place: Place, base: int, value: bytes) -> int:
        """What is acknowledged stands in the topic's history at that moment, be it sent for the first time or again; in
        which epoch."""
        model, topic = self._world.model, site.log.announced.state.by_incarnation(place[0])
        epoch = next((each.number for each in model.trees[place].values() if each.records.get(base) == value), -1)
        if topic is not None and place[0] not in model.rolled_back:
            assert model.is_on_path(place, topic.epoch, epoch, base), (
                f"{site.name}: dead {base} of {place} acknowledged"
            )
        return epoch

    def _new_producer(self, site: Site, place: Place) -> Producer:
        self._ids += 1
        producer = self._producers[site.name, place] = Producer(self._ids)
        return producer

    def hand_over(self, site: Site, topic: Topic, choose: Random) -> None:
        """A topic is given to a neighbour, that which has all of it or any other."""
        sites = self._world.shape.neighbours(site.name)
        if sites:
            to = choose.choice(sites)
            self._world.note("hand over", site.name, topic.name, to)
            self._world.run(
                site,
                lambda d: hand_over(
                    d, topic.number, to=IDS[to], owner_at=self._world.sites[to].path, writer_epoch_id=site.log.epoch.id
                ),
            )

    def take_over(self, site: Site, topic: Topic, _: Random, above: int = 0, writer: bytes | None = None) -> None:
        """A site takes a topic, whose owner it believes to be lost. `above`: an epoch that it has elsewhere. `writer`:
        whose class its writer has, as one of 2,048 has by chance."""
        self._world.note("take over", site.name, topic.name)
        at, writer = site.path, writer or site.log.epoch.id
        self._world.run(site, lambda d: take_over(d, topic.number, owner_at=at, writer_epoch_id=writer, above=above))

    def try_elsewhere(self, site: Site, topic: Topic) -> None:
        """A site that does not own a topic refuses to change it."""
        batch = build_batch([(None, b"never")])

        def changed(draft: Draft) -> None:
            for change in (
                lambda: produce(draft, topic.number, 0, batch),
                lambda: delete_topic(draft, topic.name),
                lambda: set_partitions(draft, topic.name, topic.partitions + 1),
                lambda: set_configs(draft, topic.name, {"retention.ms": "7"}),
                lambda: delete_records(draft, topic.number, 0, -1),
            ):
                try:
                    change()
                except NotOwner:
                    continue
                raise AssertionError(f"{site.name} changed topic {topic.name}, which it does not own")

        answer = self._world.run(site, changed)
        assert answer is None or isinstance(answer, FairleadError)
