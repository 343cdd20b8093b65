"""`stream recover` after a site was put back to its backup: what runs in production, with HTTP left out.

3: what a neighbour has of the longest history is live again at the site that had lost it, at its own offsets; and if
nothing was written in between, all else holds of the topic that holds of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple, TypeVar, cast
from unittest.mock import patch

from tests.properties.invariants import places_of
from tests.properties.links import Links
from tests.properties.model import Site
from tests.properties.owners import topics_of
from tests.properties.readers import OneStream
from tests.properties.shape import IDS
from tests.properties.sites import World
from tests.streamlog.world import FakeClock, values_at
from tests.support.batches import produce

from fairlead.cluster.jobs import JobRecord
from fairlead.gateway.pulling import answering, compared, recover, taking
from fairlead.gateway.pulling.neighbours import Neighbour, Share
from fairlead.gateway.pulling.recover import Recoveries
from fairlead.model.errors import FairleadError, Unreachable
from fairlead.model.names import StreamPath
from fairlead.protocol.batch import build_batch
from fairlead.streamlog.applying.admission import ANYBODY, Admission
from fairlead.streamlog.requests.produce import ProduceResult
from fairlead.streamlog.requests.rollback import ENTRY, forget_rolled_back, note_rolled_back
from fairlead.streamlog.requests.topics import delete_topic
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.shard import Shard
from fairlead.wire.messages import body_from_json, to_json

T = TypeVar("T")
PATH = "/s"
TRIES = 6
"""Of one recovery: its process may die in the middle."""


@dataclass(frozen=True, slots=True)
class RecoveringStream(OneStream):
    """A site's stream, as its recovery asks for it."""

    path: str = PATH

    def find_topic(self, name: str) -> tuple[Shard, Topic] | None:  # type: ignore[override]
        topic = self.site.shard.state.by_name(name)
        return None if topic is None else (self.site.shard, topic)

    def falls_into(self, shard: Shard) -> Callable[[str], bool]:
        return lambda name: True

    async def delete_topic(self, name: str) -> None:
        await self.site.shard.submit(lambda d: delete_topic(d, name))

    async def forget_rolled_back(self) -> None:
        await self.site.shard.submit(forget_rolled_back)


class Jobs:
    """Of a cluster; nothing of them is kept."""

    def new(self, kind: str, stream: RecoveringStream, options: dict[str, str], total: int) -> JobRecord:
        return JobRecord(bytes(16), kind, stream.id, PATH, options, total, 0)


class NoLinks:
    """A recovery lets the links that have stopped go on; here that is done when it has ended."""

    def of_source(self, stream: bytes) -> list[object]:
        return []


@dataclass(frozen=True, slots=True)
class SiteCluster:
    """A site as a cluster."""

    site: Site
    lookups: ThreadPoolExecutor
    jobs: Jobs = field(default_factory=Jobs)
    urls: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.site.name

    @property
    def clock(self) -> FakeClock:
        return self.site.clock

    def stream(self, path: str) -> RecoveringStream:
        return RecoveringStream(self.site)

    def stream_of(self, id: bytes, path: str) -> RecoveringStream:
        return RecoveringStream(self.site)

    def global_path(self, path: str) -> StreamPath:
        return StreamPath(path, self.site.name)


class Gates:
    """The gateways of all sites, as one of them reaches them."""

    def __init__(self, site: Site, sites: dict[str, Site], links: Links) -> None:
        self._site = site
        self._sites = sites
        self._links = links
        self._lookups = ThreadPoolExecutor(1)

    async def ask_about(self, urls: Sequence[str], route: str, request: object, kind: type[T]) -> T:
        asked = {"/gateway/compare": compared.answer_compare, "/gateway/owned": compared.answer_owned}[route]
        with self._reached(urls) as cluster:
            return body_from_json(await asked(cluster, body_from_json(to_json(request), type(request))), kind)  # type: ignore[operator]

    async def pull(self, urls: Sequence[str], request: Any, bytes_max: int) -> bytes:
        with self._reached(urls) as cluster:
            return await answering.answer_pull(cluster, request)

    @contextmanager
    def _reached(self, urls: Sequence[str]) -> Iterator[Any]:
        other = self._sites[urls[0]]
        if not any({link.source, link.target} == {self._site.name, other.name} for link in self._links.whole):
            raise Unreachable(f"{other.name} is away")
        with other.storage.faults.held_off():
            yield SiteCluster(other, self._lookups)


class Had(NamedTuple):
    """What a neighbour has of a partition."""

    records: dict[int, bytes | None]
    deleted_to: int


class Returns:
    """Of all sites of a world from their backups."""

    def __init__(self, world: World, links: Links) -> None:
        self._world = world
        self._links = links
        self._lookups = ThreadPoolExecutor(1)

    def recover(self, site: Site, choose: Random) -> bool:
        """A site notices that it was rolled back, and gets back what its neighbours have; whether all could be asked
        and nothing was refused."""
        names = [each.path.cluster for each in self._neighbours(site)]
        if not names:
            return False
        self._world.note("recover", site.name)
        self._world.run(site, lambda d: note_rolled_back(d, site.path, f"/mapr/{names[0]}{PATH}"))
        self._writes_nothing(site)
        is_whole = all(self._reaches(site, str(name)) for name in names)
        with self._bound():
            for _ in range(TRIES):
                done = self._world.lived(site, self._all(site, choose, force=not is_whole))
                if isinstance(done, FairleadError):
                    self._world.note("not recovered", site.name, repr(done))
                if done is not None:
                    break
        self._let_go(site, kept=done is True and is_whole)
        if done is not True:
            return False
        for link in self._world.shape.links:
            if link.source == site.name and not self._links.knows_history(link):
                self._links.rescan(link)
        return is_whole

    def _writes_nothing(self, site: Site) -> None:
        """1: until it is recovered: nobody knows which offsets it has given before."""
        topic = next(iter(topics_of(site, owned=True)), None)
        if topic is not None and site.log.announced.state.entry(ENTRY) is not None:
            batch = build_batch([(None, self._world.new_values(1)[0])])
            answer = self._world.run(site, lambda d: produce(d, topic.number, 0, batch))
            assert not isinstance(answer, ProduceResult), f"{site.name}: {topic.name} is written before it is recovered"

    async def _all(self, site: Site, choose: Random, *, force: bool) -> bool:
        cluster = cast(Any, SiteCluster(site, self._lookups))
        gates = cast(Any, Gates(site, self._world.sites, self._links))
        work = Recoveries(cluster, lambda: gates, cast(Any, None), cast(Any, NoLinks()))
        job, names = await work.prepare(PATH, force=force)
        refused = 0
        while names:
            some = choose.randint(1, len(names))
            outcome = await work.do(job, names[:some])
            names, refused = names[some:], refused + len(outcome.refused)
            job = replace(job, refused=refused)
            self._world.note("recovered", site.name, outcome.refused)
        return refused == 0

    @contextmanager
    def _bound(self) -> Iterator[None]:
        """Meanwhile links of the world bind sites to each other."""

        def found(cluster: SiteCluster, stream: object) -> list[Neighbour]:
            return self._neighbours(cluster.site)

        with (
            patch.object(recover, "neighbours", found),
            patch.object(taking, "neighbours", found),
            patch.object(answering, "may_have", lambda *_: Share()),
            patch.object(compared, "may_have", lambda *_: Share()),
        ):
            yield

    def _neighbours(self, site: Site) -> list[Neighbour]:
        """One's own of a site, whether they are reached or not."""
        found: list[Neighbour] = []
        for other in self._world.shape.sites:
            links = [link for link in self._world.shape.links if {link.source, link.target} == {site.name, other}]
            if links and all(link.peer == "own" for link in links):
                brings = any(link.target == site.name for link in links)
                admission = ANYBODY if brings else Admission(frozenset({site.stream_id}), moves_owners=True)
                found.append(Neighbour(StreamPath(PATH, other), IDS[other], (other,), admission, own=True))
        return found

    def _reaches(self, site: Site, other: str) -> bool:
        return any({link.source, link.target} == {site.name, other} for link in self._links.whole)

    # What must hold

    def longest(self, site: Site) -> dict[tuple[bytes, int], Had]:
        """What the neighbour has of the site's own topics that has the longest history of each partition."""
        ranks: dict[tuple[bytes, int], tuple[Any, ...]] = {}
        found: dict[tuple[bytes, int], Had] = {}
        for neighbour in self._neighbours(site):
            other = self._world.sites[str(neighbour.path.cluster)]
            for topic in other.log.announced.state.topics():
                for partition in range(topic.partitions):
                    state = other.log.announced.state.partition(topic.number, partition)
                    rank = (topic.epoch, state.epoch, state.end)
                    place = (topic.incarnation, partition)
                    if topic.owner == site.stream_id and rank > ranks.get(place, (-1,)):
                        with other.storage.faults.held_off():
                            records = values_at(other.log, topic.number, partition)
                            ranks[place], found[place] = rank, Had(records, state.deleted_to)
        return found

    def _let_go(self, site: Site, *, kept: bool) -> None:
        """3: what the site has acknowledged since it was rolled back, in an epoch that others know otherwise, is dead
        now where they have more; with `kept` it is in a diverged topic, unless it was deleted with the whole topic."""
        model = self._world.model
        self._world.copy_kept(site.name)
        kept = kept and not any(cut.keep for _, cuts in site.log.announced.state.cut_items() for cut in cuts)
        for topic, place, _ in places_of(site):
            if place[0] not in model.rolled_back:
                continue
            with site.storage.faults.held_off():
                found = values_at(site.log, topic.number, place[1])
                tails = [values_at(site.log, each.number, place[1]) for each in self._tails(site, place)]
            for (epoch, offset), value in list(model.acked.get(place, {}).items()):
                is_ours = model.trees[place][epoch].owner == site.stream_id and offset >= site.shown.gone.get(place, 0)
                if is_ours and found.get(offset) != value:
                    is_kept = any(tail.get(offset) == value for tail in tails)
                    is_deleted = (place[0], site.name) in model.deleted_at
                    assert is_kept or is_deleted or not kept, (
                        f"{site.name}: acknowledged {offset} of {topic.name} is in no topic"
                    )
                    del model.acked[place][epoch, offset]

    def _tails(self, site: Site, place: tuple[bytes, int]) -> list[Topic]:
        """The diverged topics of a partition that are at the site."""
        of = [tail for tail, topic in self._world.model.tails.items() if topic == place[0]]
        found = [site.log.announced.state.by_incarnation(each) for each in of]
        return [each for each in found if each is not None and place[1] < each.partitions]

    def check(self, site: Site, expected: dict[tuple[bytes, int], Had]) -> None:
        """3: the site has it again, but for what it has outlived or deleted; what a later owner's history has, links
        bring. (An owner of before may have made partitions that the present one never heard of.)"""
        state = site.log.announced.state
        for (incarnation, partition), (records, deleted_to) in expected.items():
            topic = state.by_incarnation(incarnation)
            if topic is not None and (topic.owner != site.stream_id or not records):
                continue
            if topic is None or partition >= topic.partitions:
                assert state.tombstone(incarnation) is not None, f"{site.name}: a topic was not brought back"
                continue
            held = state.partition(topic.number, partition)
            log_start, end = held.log_start, held.end
            assert log_start >= min(deleted_to, end), (
                f"{site.name}: {topic.name}-{partition} was deleted to {deleted_to}"
            )
            with site.storage.faults.held_off():
                found = values_at(site.log, topic.number, partition)
            lost = {at: value for at, value in records.items() if at >= log_start and found.get(at) != value}
            assert not lost, f"{site.name}: {lost} of {topic.name}-{partition} is not recovered, there is {found}"
