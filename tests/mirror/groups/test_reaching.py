"""Topics that go, come, or are made again while places of groups are looked up: those of the others are found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pytest
from tests.mirror.fake import FakeCluster, FakeFeed

from fairlead.mirror.books.book import Book, Position, read_book
from fairlead.mirror.books.origins import Origins
from fairlead.mirror.books.points import Segment, block_record
from fairlead.mirror.carrying.making import Route
from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.groups import counting, stepping
from fairlead.mirror.groups.facing import Facing
from fairlead.mirror.groups.reaching import Reached, Reaching
from fairlead.mirror.groups.tracks import Tracks
from fairlead.mirror.lanes import Part
from fairlead.mirror.names import POSITIONS
from fairlead.mirror.ports import Commit, Place
from fairlead.mirror.report import Tally

KEPT = Route(0, 1, by_key=False, keep_order=False)
DEALT = Route(0, 1, by_key=True, keep_order=False)
AT = 11
"""One record of somebody else's lies between what was mirrored: it is stepped over at the destination."""


class Asked(FakeCluster):
    """Something happens while it is asked."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.meanwhile: Callable[[], None] = lambda: None
        self.batches_max = 4

    def feed(self, *, committed: bool = True) -> FakeFeed:
        self.meanwhile()
        feed = super().feed(committed=committed)
        feed.batches_max = self.batches_max
        return feed

    async def offsets(self, places: Iterable[Place], at: int) -> Mapping[Place, int]:
        self.meanwhile()
        return await super().offsets(places, at)


class Rig:
    """Topics `t` and `u` of ten records, mirrored whole."""

    def __init__(self, route: Route) -> None:
        self.source, self.destination, self.tracks, self.route = Asked("a"), Asked("b"), Tracks(), route
        origins = Origins(self.source, "b")
        self.reaching = Reaching(self.source, self.destination, origins, self.tracks, countable=True)
        for topic in ("t", "u"):
            self.begin(topic)

    def begin(self, topic: str) -> None:
        for cluster in (self.source, self.destination):
            cluster.make(topic, 2)
            cluster.put(topic, 0, [b"v"] * AT)
        for number in (0, 1) if self.route.by_key else (0,):
            part = Part("a", self.source.made[topic].topic_id, topic, number)
            begin = Position(10, 0, topic, topic, at=AT, since=8, sent=10)
            standing = Standing(part, topic, begin, Tally(), lambda standing: None, 10)
            standing.frontier = 0
            self.tracks.begin(standing, self.route, self._book(part), {Place(topic, 0): AT})
        self.tracks.remember(self.tracks.ends_now())

    def _book(self, part: Part) -> Book:
        return read_book([block_record(part, 0, [Segment(0, 0, 2, 0)])], "books")

    def lose(self) -> None:
        self.tracks.lose(Part("a", self.source.made["t"].topic_id, "t", 0))

    def make_again(self) -> None:
        self.lose()
        self.begin("t")

    async def places(self, offset: int) -> Mapping[Place, Reached]:
        commits = {Place(topic, 0): Commit(offset, "") for topic in ("t", "u")}
        return (await self.reaching.of({"g": commits})).places.get("g", {})


@pytest.mark.parametrize("asked", ["source", "destination"])
@pytest.mark.parametrize("happens", ["lose", "make_again"])
async def test_a_topic_that_goes_while_records_are_counted_ends_nothing(asked: str, happens: str) -> None:
    """At the source or, where others have written, at the destination."""
    rig = Rig(KEPT)
    whole = await rig.places(5)
    assert {place.topic: reached.commit.offset for place, reached in whole.items()} == {"t": 5, "u": 5}
    cluster: Asked = getattr(rig, asked)

    def once() -> None:
        cluster.meanwhile = lambda: None
        getattr(rig, happens)()

    cluster.meanwhile = once
    assert {place.topic: reached.commit.offset for place, reached in (await rig.places(6)).items()} == {"u": 6}


ROUNDS = 1_000
"""Of which some have no time for anything, on a busy machine."""


@pytest.mark.parametrize("asked", ["source", "destination"])
async def test_what_does_not_come_holds_up_no_other_partition(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said how much is late, and that comes later."""
    monkeypatch.setattr(counting, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(stepping, "WAIT_SECONDS", 0.01)
    rig = Rig(KEPT)
    cluster: Asked = getattr(rig, asked)
    cluster.silent = {Place("u", 0)}
    commits = {"g": {Place(topic, 0): Commit(5, "") for topic in ("t", "u")}}
    for _ in range(ROUNDS):
        reach = await rig.reaching.of(commits)
        if reach.places:
            break
    assert list(reach.places["g"]) == [Place("t", 0)]
    assert (reach.late, reach.unknown) == (1, 1)
    cluster.silent.clear()
    for _ in range(ROUNDS):
        reach = await rig.reaching.of(commits)
        if not reach.late:
            break
    assert {place.topic: reached.commit.offset for place, reached in reach.places["g"].items()} == {"t": 5, "u": 5}


@pytest.mark.parametrize("asked", ["source", "destination"])
async def test_what_takes_longer_goes_on_in_the_next_round(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little comes in one; else it would never come to its end."""
    monkeypatch.setattr(counting, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(stepping, "WAIT_SECONDS", 0.01)
    rig = Rig(KEPT)
    cluster: Asked = getattr(rig, asked)
    cluster.answers_max = cluster.batches_max = 1
    for _ in range(ROUNDS):
        places = await rig.places(6)
        if len(places) == 2:
            break
    assert {place.topic: reached.commit.offset for place, reached in places.items()} == {"t": 6, "u": 6}


@pytest.mark.parametrize("happens", ["lose", "make_again"])
async def test_a_topic_dealt_by_key_that_goes_meanwhile_ends_nothing(happens: str) -> None:
    """While it is asked where the partitions begin of which a group has committed nothing."""
    rig = Rig(DEALT)

    def once() -> None:
        rig.source.meanwhile = lambda: None
        getattr(rig, happens)()

    commits = {"t": {Place("t", 0): Commit(10, "")}, "both": {Place(topic, 0): Commit(10, "") for topic in ("t", "u")}}
    whole = (await rig.reaching.of(commits)).places
    assert {group: list(places) for group, places in whole.items()} == {
        "t": [Place("t", 0)],
        "both": [Place("t", 0), Place("u", 0)],
    }
    rig.source.meanwhile = once
    rest = (await rig.reaching.of(commits)).places
    assert {group: list(places) for group, places in rest.items()} == {"both": [Place("u", 0)]}


async def test_a_book_that_comes_while_others_are_read_ends_nothing() -> None:
    """Of one more mirror that faces this one."""
    source = Asked("a")
    first, second = (POSITIONS.format(name) for name in ("first", "second"))
    source.make(first)
    facing = Facing(source, "b")
    facing.look([first])
    source.meanwhile = lambda: facing.look([first, second])
    await facing.refresh()
    await facing.refresh()
    assert not facing.writes(Place("t", 0))
