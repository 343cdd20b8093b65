"""Taking a topic over as the command does: ask the neighbours that answer, bring what they have more, take it.

What is to be brought, the rows, how they are applied and the takeover are what runs in production; HTTP is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random

from tests.properties.links import Links
from tests.properties.model import Site
from tests.properties.owners import Owners
from tests.properties.shape import IDS
from tests.properties.sites import World
from tests.streamlog.world import values_at

from fairlead.gateway.takeovers.plan import Furthest, Witness, plan
from fairlead.streamlog.applying.admission import ANYBODY, Admission
from fairlead.streamlog.applying.pulled import NO_LINK, NO_RUN, PulledRows, apply_pulled
from fairlead.streamlog.frames.codec import decode_frame, encode_frame
from fairlead.streamlog.frames.frame import Frame, FrameTopic, Repair
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.reading.rest import rest_of, topic_row
from fairlead.streamlog.rows import Row
from fairlead.streamlog.state.effects import payload_of
from fairlead.streamlog.values import PartitionState, Topic
from fairlead.wire.neighbours import PartitionAt, StandingTopic

PULLED_BYTES = (1, 200, 4_000_000)
ANSWERS_MAX = 200
"""Of one partition; each brings a batch or a TOPIC row."""


class Takeovers:
    """Of one world."""

    def __init__(self, world: World, links: Links, owners: Owners) -> None:
        self._world = world
        self._links = links
        self._owners = owners

    def take(self, site: Site, topic: Topic, choose: Random) -> None:
        """A site takes a topic after it asked its neighbours; who cannot be reached is not asked."""
        witnesses = self._witnesses(site, topic)
        here = _partitions(site, topic)
        found = plan(topic, here, witnesses, stream=site.stream_id, force=choose.random() < 0.3)
        self._world.note("planned", site.name, topic.name, found.why_not, found.above, sorted(found.to_bring))
        if found.why_not:
            return
        furthest = self._furthest(topic, witnesses)
        bring = [self._bring(site, topic.incarnation, *each, choose) for each in sorted(found.to_bring.items())]
        known = site.log.announced.state.by_incarnation(topic.incarnation)
        if known is None:
            return
        self._owners.take_over(site, known, choose, found.above)
        now = site.log.announced.state.by_incarnation(topic.incarnation)
        if now is not None and now.owner == site.stream_id and now.epoch > known.epoch and all(bring):
            self._has_what_any_had(site, now, furthest)

    def _has_what_any_had(self, site: Site, taken: Topic, furthest: Mapping[int, int]) -> None:
        """3: nothing is left out that somebody had who was asked, if all that was to be brought came."""
        for number, (start, _) in enumerate(taken.since):
            assert start >= furthest.get(number, 0) or taken.incarnation in self._world.model.rolled_back, (
                f"{site.name} took {taken} over from {start}, and a neighbour has it to {furthest[number]}"
            )

    def _furthest(self, topic: Topic, witnesses: Sequence[Witness]) -> dict[int, int]:
        """By partition, how far the topic's history goes at any of those who are asked."""
        model, ends = self._world.model, dict[int, int]()
        epoch = max([topic.epoch, *(each.standing.topic.epoch for each in witnesses if each.speaks_for_owner)])
        asked = {each.stream for each in witnesses}
        for other in (each for each in self._world.sites.values() if each.stream_id in asked):
            held = other.log.announced.state.by_incarnation(topic.incarnation)
            assert held is not None
            for number in range(held.partitions):
                place, state = (topic.incarnation, number), other.log.announced.state.partition(held.number, number)
                with other.storage.faults.held_off():
                    found = values_at(other.log, held.number, number)
                live = (at for at in found if model.is_on_path(place, epoch, state.epoch_before(at + 1), at))
                ends[number] = max([ends.get(number, 0), *(at + 1 for at in live)])
        return ends

    def _witnesses(self, site: Site, topic: Topic) -> list[Witness]:
        found: dict[str, Witness] = {}
        for link in self._links.whole:
            other = link.source if link.target == site.name else link.target
            if site.name not in (link.source, link.target) or other in found:
                continue
            neighbour = self._world.sites[other]
            held = neighbour.log.announced.state.by_incarnation(topic.incarnation)
            if held is not None:
                admission = self._admission(site, other)
                may = admission.moves_owners or admission.speaks_for(topic.owner)
                standing = StandingTopic(payload_of(held), tuple(_partitions(neighbour, held)))
                found[other] = Witness(neighbour.path, neighbour.stream_id, may, standing)
        return list(found.values())

    def _admission(self, site: Site, other: str) -> Admission:
        links = [link for link in self._world.shape.links if {link.source, link.target} == {site.name, other}]
        is_own = all(link.peer == "own" for link in links)
        return ANYBODY if is_own else Admission(frozenset({IDS[other]}))

    def _bring(self, site: Site, incarnation: bytes, number: int, furthest: Furthest, choose: Random) -> bool:
        """What a neighbour has more of a partition, answer by answer; whether all of it came."""
        source = next(each for each in self._world.sites.values() if each.stream_id == furthest.stream)
        admission = self._admission(site, source.name)
        for _ in range(ANSWERS_MAX):
            topic = site.log.announced.state.by_incarnation(incarnation)
            state = None if topic is None else site.log.announced.state.partition(topic.number, number)
            if topic is None or state is None:
                return False
            data = self._world.lived(source, _answer(source, topic, number, state, choose.choice(PULLED_BYTES)))
            if not data or not isinstance(data, bytes):
                return False
            frame = decode_frame(data)
            outcome = self._world.run(site, partial(apply_pulled, frame=frame, admission=admission))
            now = site.log.announced.state.by_incarnation(incarnation)
            is_moved = now is not None and (now.epoch, now.version) != (topic.epoch, topic.version)
            if not isinstance(outcome, PulledRows) or (not outcome.appended and not is_moved):
                end = 0 if now is None else site.log.announced.state.partition(now.number, number).end
                return end >= furthest.end
        return False


def _partitions(site: Site, topic: Topic) -> list[PartitionAt]:
    states = (site.log.announced.state.partition(topic.number, each) for each in range(topic.partitions))
    return [PartitionAt(state.end, state.history) for state in states]


async def _answer(source: Site, known: Topic, number: int, state: PartitionState, bytes_max: int) -> bytes:
    """What follows of a partition that another site has in part; only the topic's row if that is newer here."""
    log = source.log.announced
    topic = log.state.by_incarnation(known.incarnation)
    if topic is None or number >= topic.partitions:
        return b""
    is_newer = (topic.epoch, topic.version) > (known.epoch, known.version)
    news = [topic_row(log, topic)] if is_newer else []
    rest = rest_of(log, source.log.reader, topic, number, state.end, bytes_max)
    rows: Sequence[Row] = news if topic.epoch > known.epoch else [*news, *rest.rows]
    end = log.state.partition(topic.number, number).end
    return encode_frame(
        Frame(
            link=NO_LINK,
            run=NO_RUN,
            source=source.stream_id,
            shard=0,
            slices=1 << slice_of_number(topic.number),
            from_commit=log.end,
            to_commit=log.end,
            epoch_id=log.epochs[-1].id,
            topics={topic.number: FrameTopic(topic.incarnation, topic.name)},
            rows=rows,
            repair=Repair(topic.number, number, log.end, rest.ended, end),
            end=log.end,
        )
    )
