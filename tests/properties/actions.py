"""What may happen in a world, how often, and to whom: one run is a seed's choice of these."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from random import Random
from typing import NamedTuple

from tests.properties.groups import Groups
from tests.properties.healing import check_all, check_what_changed, heal
from tests.properties.links import Links
from tests.properties.lives import TTL_MS
from tests.properties.model import Site
from tests.properties.names import Names
from tests.properties.owners import Owners, topics_of
from tests.properties.shape import (
    SHARED,
    SLICES_USED,
    Link,
    Shape,
    any_filter,
    close_shape,
    filtered_shape,
    random_shape,
)
from tests.properties.sites import HOUR_MS, MakeStorage, World
from tests.properties.tails import Tails
from tests.properties.takeovers import Takeovers

from fairlead.storage.memory import Call, Fault, MemoryStorage
from fairlead.streamlog.rows import Kind as RowKind
from fairlead.streamlog.values import Topic

CALLS: list[Call] = ["put", "put", "put", "size", "list", "get", "get_range", "delete"]
FAULTS = list(Fault)


def in_memory(site: str) -> MemoryStorage:
    return MemoryStorage()


class Action(NamedTuple):
    """Something that may happen."""

    name: str
    weight: float
    do: Callable[[Play], None]


class Kind(NamedTuple):
    """What sort of worlds are played."""

    shape: Callable[[Random], Shape]
    steps: int
    actions: Sequence[Action]
    weights: Mapping[str, float]
    """Of actions that happen more or less often than in others."""
    harmed: Collection[int] = (RowKind.BATCH,)
    """Kinds of rows that a bad disk harms."""
    claims: bool = False
    """Tails are claimed, many rows are applied at once, and many of them harmed."""
    decides: bool = False
    """Several sites use one name, and in the end people decide which topics have it."""
    late: bool = False
    """Groups commit late, and one of them is never at work in two places."""
    answers: bool = False
    """A source hears of owners in answers to what it has sent of those before; else of all that its replica knows."""
    commit_bytes: int = 200
    """About so many bytes of requests make a commit."""


class Play:
    """One run."""

    def __init__(
        self, seed: int, make_storage: MakeStorage = in_memory, shape: Shape | None = None, kind: Kind | None = None
    ) -> None:
        self.choose = Random(seed)
        self.kind = kind = kind or ANYTHING
        self.world: World = World(seed, shape or kind.shape(self.choose), make_storage, kind.commit_bytes)
        self.links: Links = Links(self.world)
        self.links.harmed = kind.harmed
        self.links.answers = self.world.model.answers = kind.answers
        self.owners = Owners(self.world)
        self.tails = Tails(self.world, self.owners)
        if kind.claims:
            self.owners.gives_up = self.links.copies_meanwhile = True
            self.links.piece_rows, self.links.harm = PIECES, 0.3
        self.takeovers = Takeovers(self.world, self.links, self.owners)
        self.groups = Groups(self.world)
        self.groups.late = kind.late
        self.names = Names(self.world, self.links)
        if kind.decides:
            self.world.on_undecided = self.names.decide
            self.world.model.decides = True
        self.world.on_checked = self.groups.check
        self.world.on_healing = self.groups.end
        self.world.on_healed = self.groups.agree
        self.shares_names = self.choose.random() < 0.2
        self.table = [
            action._replace(weight=kind.weights.get(action.name, action.weight) * self.choose.choice(MOODS))
            for action in kind.actions
        ]
        """Each run has a mood of its own: what happens often in one happens never in another."""
        self._heat = {link: self.choose.choice(HEAT) for link in self.world.shape.links}
        """Most of what happens to links happens to a few of them, and to the sites at their ends."""

    def run(self) -> World:
        """Play it to its end."""
        with closing(self.world):
            self.begin()
            for _ in range(self.kind.steps):
                (action,) = self.choose.choices(self.table, [each.weight for each in self.table])
                self.take(action)
            heal(self.world, self.links)
        return self.world

    def begin(self) -> None:
        """Two sites have a topic each; where names are contested, all have one of the same name."""
        if self.kind.decides:
            self.names.begin(self.choose)
        for site in self.choose.sample(sorted(self.world.sites), 2):
            self.owners.create(self.world.sites[site], self.world.names(site)[0], self.choose)

    def take(self, action: Action) -> None:
        """One action, and what it touched is checked."""
        self.world.note(action.name)
        action.do(self)
        check_what_changed(self.world, self.links)

    # To whom

    def site(self) -> Site:
        """Any, or more likely one at the end of a busy link."""
        if self.choose.random() < 0.3:
            return self.world.sites[self.choose.choice(self.world.shape.sites)]
        link = self.link()
        return self.world.sites[self.choose.choice((link.source, link.target))]

    def link(self, of: Sequence[Link] = ()) -> Link:
        """One of these, or of all."""
        found = of or self.world.shape.links
        link = self.choose.choices(found, [self._heat[replace(link, side=False)] for link in found])[0]
        if not of and link in self.links.widened and self.choose.random() < 0.5:
            return replace(link, side=True)
        return link


# Owners


def create(play: Play) -> None:
    site = play.site()
    name = play.choose.choice(play.world.names(site.name))
    if name != SHARED or play.shares_names:
        play.owners.create(site, name, play.choose)


def of_an_owner(act: Callable[[Owners, Site, Topic, Random], None]) -> Callable[[Play], None]:
    """What is done to a topic by its owner."""

    def do(play: Play) -> None:
        topics = {site.name: found for site in play.world.sites.values() if (found := topics_of(site, owned=True))}
        if topics:
            name = play.site().name
            name = name if name in topics else play.choose.choice(sorted(topics))
            act(play.owners, play.world.sites[name], play.choose.choice(topics[name]), play.choose)

    return do


def take_over(play: Play) -> None:
    site = play.site()
    topics = [topic for owned in (True, False) for topic in topics_of(site, owned=owned)]
    if topics:
        play.owners.take_over(site, play.choose.choice(topics), play.choose)


def take_from_another(play: Play) -> None:
    site = play.site()
    topics = topics_of(site, owned=False)
    if topics:
        play.owners.take_over(site, play.choose.choice(topics), play.choose)


def ask_and_take(play: Play) -> None:
    site = play.site()
    topics = topics_of(site, owned=play.choose.random() < 0.2)
    if topics:
        play.takeovers.take(site, play.choose.choice(topics), play.choose)


def try_elsewhere(play: Play) -> None:
    site = play.site()
    topics = topics_of(site, owned=False)
    if topics:
        play.owners.try_elsewhere(site, play.choose.choice(topics))


# Links


def send(play: Play) -> None:
    choose = play.choose
    slices = choose.choice([SLICES_USED, SLICES_USED, SLICES_USED[:1], SLICES_USED[1:]])
    length = choose.choice([None, None, 1, 2, 5])
    back = choose.choice([0, 0, -1, -1, 1, 5, 50])
    play.links.send(play.link(), slices, back, length, new_run=choose.random() < 0.2)


def deliver(play: Play) -> None:
    choose = play.choose
    play.links.deliver(
        play.link(play.links.busy),
        choose.choice([-1, -1, 0, choose.randrange(9)]),
        choose.choice([1, 1, 2, 5]),
        keep=choose.random() < 0.3,
        damage=choose.random() < 0.3,
    )


def repair(play: Play) -> None:
    later = play.choose.random() < 0.5
    play.links.repair(play.link(), later=later)


def announce(play: Play) -> None:
    play.links.announce(play.link(play.links.standing))


def step(play: Play) -> None:
    if play.links.widened:
        play.links.step(play.choose.choice(play.links.widened))


def refilter(play: Play) -> None:
    play.links.refilter(replace(play.link(), side=False), any_filter(play.choose, play.world.shape.sites))


def begin_now(play: Play) -> None:
    play.links.remake(play.link(), from_now=True)


# Groups


def read(play: Play) -> None:
    play.groups.read(play.site(), play.choose)


def leave(play: Play) -> None:
    play.groups.leave(play.site(), play.choose)


def publish(play: Play) -> None:
    play.groups.publish(play.site())


def commit_late(play: Play) -> None:
    play.groups.commit_late(play.site(), play.choose)


def change_a_cursor(play: Play) -> None:
    play.groups.change(play.site(), play.choose)


# Machines


def fault(play: Play) -> None:
    choose = play.choose
    times = choose.choice([1, 1, 1, 5, 6])
    play.world.fault(play.site().name, choose.choice(FAULTS), choose.choice(CALLS), choose.randint(1, 3), times)


def reopen(play: Play) -> None:
    play.world.reopen(play.site().name, power_fails=play.choose.random() < 0.5)


def pass_time(play: Play) -> None:
    play.world.pass_time(play.site().name, play.choose.choice([10, 1500, TTL_MS // 2, 3 * TTL_MS]))


def age(play: Play) -> None:
    """All that a site holds has outlived its time."""
    name = play.site().name
    play.world.pass_time(name, 3 * TTL_MS)
    play.world.upkeep(name)


def jump(play: Play) -> None:
    play.world.jump(play.site().name, play.choose.choice([-3 * HOUR_MS, -TTL_MS, TTL_MS, 3 * HOUR_MS]))


def roll_back(play: Play) -> None:
    backed = [site for site in play.world.sites.values() if site.snapshot is not None]
    if backed:
        play.world.roll_back(play.choose.choice(backed).name)


def to_a_site(act: Callable[[World, str], None]) -> Callable[[Play], None]:
    """What happens to any site."""
    return lambda play: act(play.world, play.site().name)


def to_a_link(act: Callable[[Links, Link], None]) -> Callable[[Play], None]:
    """What happens to any link."""
    return lambda play: act(play.links, play.link())


def claim(play: Play) -> None:
    play.tails.claim(play.site(), play.choose)


def merge_later(play: Play) -> None:
    """A job is planned, often when all has outlived its time, and before it is installed links flow."""
    name = play.site().name
    if play.choose.random() < 0.5:
        play.world.pass_time(name, 3 * TTL_MS)
    play.world.merge(name, later=True)
    if play.choose.random() < 0.5:
        exchange_all(play, into=name)
        play.world.merge(name)


def copy_meanwhile(play: Play) -> None:
    """A holder of a tail has copied it, and another one does so when that comes."""
    name = play.site().name
    play.world.copy_kept(name)
    exchange_all(play, out_of=name)


def delete_a_tail(play: Play) -> None:
    """Nobody wants it, and the other holders hear of that."""
    site = play.site()
    play.tails.delete(site, play.choose)
    exchange_all(play, out_of=site.name)


def exchange_all(play: Play, *, into: str = "", out_of: str = "") -> None:
    """All that is new at a site, or for it, goes over."""
    for link in play.world.shape.links:
        if into == link.target or out_of == link.source:
            play.links.exchange(link)


PIECES = (2, 20)
HEAT = (0.3, 1, 1, 10)
MOODS = (0, 0.3, 1, 1, 1, 3)
ACTIONS = [
    Action("create", 4, create),
    Action("produce", 24, of_an_owner(Owners.produce)),
    Action("grow", 1.5, of_an_owner(Owners.grow)),
    Action("limit", 1, of_an_owner(Owners.limit)),
    Action("delete", 1.5, of_an_owner(Owners.delete)),
    Action("delete records", 3, of_an_owner(Owners.delete_records)),
    Action("hand over", 3, of_an_owner(Owners.hand_over)),
    Action("take a topic", 1.5, take_over),
    Action("try elsewhere", 0.5, try_elsewhere),
    Action("flow", 12, to_a_link(Links.flow)),
    Action("send", 10, send),
    Action("deliver", 16, deliver),
    Action("stand", 3, to_a_link(Links.stand)),
    Action("announce", 6, announce),
    Action("repair", 4, repair),
    Action("lose frames", 1, to_a_link(Links.lose)),
    Action("lose a connection", 1, to_a_link(Links.lose_connection)),
    Action("cut", 1.5, to_a_link(Links.cut)),
    Action("heal", 2, to_a_link(Links.heal)),
    Action("rescan", 0.4, to_a_link(Links.rescan)),
    Action("remake", 0.4, to_a_link(Links.remake)),
    Action("expire topics", 2, to_a_site(World.expire_topics)),
    Action("upkeep", 4, to_a_site(World.upkeep)),
    Action("merge", 6, to_a_site(World.merge)),
    Action("sweep", 1, to_a_site(World.sweep)),
    Action("pass time", 4, pass_time),
    Action("age", 2, age),
    Action("jump", 0.4, jump),
    Action("fault", 6, fault),
    Action("fill disk", 0.5, to_a_site(World.fill_disk)),
    Action("reopen", 3, reopen),
    Action("take over", 2, to_a_site(World.take_over)),
    Action("wake", 2, to_a_site(World.wake)),
    Action("land", 1.5, to_a_site(World.land)),
    Action("back up", 1.5, to_a_site(World.back_up)),
    Action("roll back", 1, roll_back),
    Action("check", 0.5, lambda play: check_all(play.world, play.links)),
]
ANYTHING = Kind(random_shape, 80, ACTIONS, {})
MOVES = Kind(
    close_shape,
    70,
    [
        *ACTIONS,
        Action("take from another", 6, take_from_another),
        Action("ask and take", 5, ask_and_take),
        Action("exchange", 8, to_a_link(Links.exchange)),
        Action("hear", 2, to_a_link(Links.hear)),
        Action("copy", 2, to_a_site(World.copy_kept)),
    ],
    {
        "create": 0.5,
        "produce": 30,
        "grow": 2,
        "delete records": 2,
        "hand over": 6,
        "flow": 1,
        "send": 8,
        "deliver": 14,
        "stand": 1,
        "announce": 2,
        "repair": 3,
        "cut": 3,
        "heal": 3,
        "fault": 2,
        "merge": 8,
        "jump": 0,
        "fill disk": 0.2,
        "land": 0.5,
        "rescan": 0.3,
        "remake": 0.3,
    },
    (RowKind.BATCH, RowKind.START),
)
"""Topics are few, and change their owners often, at sites that are cut off from each other too."""
FOLLOWED = MOVES._replace(actions=[*MOVES.actions, Action("follow", 12, of_an_owner(Owners.follow))])
"""Producers go on at the site that owns their topic now."""
FILTERED = Kind(
    filtered_shape,
    60,
    [*ACTIONS, Action("refilter", 4, refilter), Action("step", 12, step)],
    {"create": 3, "produce": 30, "hand over": 0, "take a topic": 0, "fault": 2, "cut": 2, "heal": 3, "flow": 6},
)
"""Links leave topics out, and other ones in time."""
FROM_NOW = (
    MOVES._replace(actions=[*MOVES.actions, Action("begin now", 5, begin_now)]),
    FILTERED._replace(actions=[*FILTERED.actions, Action("begin now", 5, begin_now)]),
)
"""Links are made again, and do not bring what was there; nor do side copies, by which topics come into them."""
GROUPS = Kind(
    close_shape,
    70,
    [
        *MOVES.actions,
        Action("read", 30, read),
        Action("leave", 6, leave),
        Action("publish", 16, publish),
        Action("change a cursor", 1.5, change_a_cursor),
    ],
    {**MOVES.weights, "roll back": 0.2, "delete": 0.5, "exchange": 16},
    MOVES.harmed,
)
"""Groups read there too, and go from site to site."""
LATE = GROUPS._replace(
    actions=[
        *MOVES.actions,
        Action("read", 30, read),
        Action("commit late", 8, commit_late),
        *(action for action in GROUPS.actions[len(MOVES.actions) :] if action.name != "read"),
    ],
    late=True,
)
"""The same, but what they have read they may commit over a cut."""
TAILS = MOVES._replace(
    actions=[
        *MOVES.actions,
        Action("claim", 6, claim),
        Action("copy meanwhile", 2, copy_meanwhile),
        Action("delete a tail", 2, delete_a_tail),
        Action("merge later", 8, merge_later),
    ],
    weights={**MOVES.weights, "delete": 2.5, "delete records": 4, "merge": 4, "copy": 1, "fault": 1},
    harmed=(RowKind.BATCH, RowKind.START, RowKind.TOPIC),
    claims=True,
)
"""What owners of before have written is claimed, deleted, merged while it is cut, and copied while it comes from others
too."""
