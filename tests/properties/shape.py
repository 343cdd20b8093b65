"""Which sites a world has, and which links with which options go between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count, islice, pairwise
from random import Random

from fairlead.cluster.topic_filter import ALL_TOPICS, LinkTopics, TopicFilter
from fairlead.model.names import slice_of

SITES = "abcdefgh"
EVERYTHING = LinkTopics()
IDS = {name: name.encode() * 16 for name in SITES}
SHARED = "ships"
"""A name that several sites may give a topic."""
DIVERGED = ".diverged."
"""In the names of topics that keep what was cut off."""
SLICES_USED = sorted({slice_of(SHARED), (slice_of(SHARED) + 1) % 16, (slice_of(SHARED) + 2) % 16})
"""All names lie in few slices: each costs every link a frame."""


def names_of(site: str, how_many: int = 3) -> list[str]:
    """What a site calls its topics; no other site uses these names."""
    found = (name for name in (f"{site}{number}" for number in count()) if slice_of(name) in SLICES_USED)
    return list(islice(found, how_many))


@cache
def lets_by(passing: LinkTopics, name: str) -> bool:
    """Whether a topic of this name passes; asked again and again."""
    return passing.passing([name])[0]


@dataclass(frozen=True, slots=True)
class Link:
    """From a site to another one, and what both ends have agreed."""

    source: str
    target: str
    forward: str = "all"
    """`all`: what the source has received goes on; `own`: only what was first written there."""
    peer: str = "own"
    """What the target takes the source for. `partner`: only the topics that it owns itself count."""
    side: bool = False
    """It is a side copy, which brings the past of topics that come into the link beside it."""

    def __str__(self) -> str:
        return f"{self.source}{'⇢' if self.side else '→'}{self.target}"


@dataclass(frozen=True, slots=True)
class Shape:
    """The sites of one world and its links."""

    sites: str
    links: tuple[Link, ...]
    filters: dict[Link, list[LinkTopics]] = field(default_factory=dict, compare=False)
    """What each link was told to bring, the last one now; a link that is missing brings all."""
    prefixes: dict[Link, list[str]] = field(default_factory=dict, compare=False)
    """What each link was told to put before the names of topics that come, the last one now; else nothing."""
    aliasing: set[str] = field(default_factory=set, compare=False)
    """Sites at which a topic whose name is taken gets one of its own."""

    def filter_of(self, link: Link) -> LinkTopics:
        """What it brings now."""
        return self.filters.get(link, [EVERYTHING])[-1]

    def prefixes_of(self, link: Link) -> list[str]:
        """All that it ever put before names, the last one now."""
        return self.prefixes.get(replace(link, side=False), [""])

    def may_have_brought(self, link: Link, name: str) -> bool:
        """Whether the link ever brought a topic of that name."""
        sides = self.filters.get(replace(link, side=True), [])
        return any(lets_by(each, name) for each in (*self.filters.get(link, [EVERYTHING]), *sides))

    def neighbours(self, site: str) -> list[str]:
        """To whom a site sends and from whom it gets, both as its own."""
        own = {(link.source, link.target) for link in self.links if link.peer == "own"}
        return [other for other in self.sites if {(site, other), (other, site)} <= own]

    def trusts(self, site: str, other: str) -> bool:
        """Whether a link between the two has the other end for one of its own."""
        return any({link.source, link.target} == {site, other} and link.peer == "own" for link in self.links)

    def reached_from(
        self, owner: str, *, moved: bool = False, lets_by: Callable[[Link], bool] = lambda link: True
    ) -> set[str]:
        """Sites to which the topics of `owner` come, once all is healed. `moved`: those that another one has made: over
        a link with forward own they come only with the new owner's first row, and over a partner's not at all if they
        came by another way before. `lets_by`: over these links, which do not leave the topic out."""
        found = {owner}
        waiting = [owner]
        while waiting:
            at = waiting.pop()
            for link in self.links:
                passes = not moved or (link.forward == "all" and link.peer == "own")
                passes = passes and link.source == at and self._passes(link, owner)
                if passes and link.target not in found and lets_by(link):
                    found.add(link.target)
                    waiting.append(link.target)
        return found

    def _passes(self, link: Link, owner: str) -> bool:
        return link.source == owner or (link.forward == "all" and link.peer == "own")


DIAMOND = Shape("abcd", tuple(Link(*ends) for ends in ("ab", "ac", "bd", "cd")))
"""A → B → D and A → C → D: two ways by which the same rows come, and two relays that merge and expire by themselves."""


def close_shape(random: Random) -> Shape:
    """Three or four sites, each of which sends to its neighbours and gets from them, but for few links that are missing
    or differ: topics go round soon, and by several ways."""
    sites = SITES[: random.choice([3, 3, 4])]
    ends = [*pairwise(sites), *([(sites[-1], sites[0])] if random.random() < 0.6 else [])]
    pairs = [pair for a, b in ends for pair in ((a, b), (b, a)) if random.random() < 0.93]
    odd = random.choice([0, 0, 0.15])
    links = [
        Link(a, b, "own" if random.random() < odd else "all", "partner" if random.random() < odd else "own")
        for a, b in sorted(pairs)
    ]
    return Shape(sites, tuple(links))


def any_filter(random: Random, sites: str) -> TopicFilter:
    """Topics of some sites, or all but those; or all."""
    some = "|".join(f"{site}.*" for site in random.sample(sites, random.randint(1, 2)))
    return random.choice([ALL_TOPICS, TopicFilter(topics=f"{some}|{SHARED}"), TopicFilter(exclude=some)])


def filtered_shape(random: Random) -> Shape:
    """Three or four sites in a line or a ring, whose links leave topics out."""
    shape = close_shape(random)
    for link in shape.links:
        if random.random() < 0.6:
            shape.filters[link] = [LinkTopics(any_filter(random, shape.sites))]
    return shape


def random_shape(random: Random) -> Shape:
    """A diamond, or five to eight sites: a line or a ring that links all, and links between any two."""
    if random.random() < 0.25:
        return DIAMOND
    sites = SITES[: random.randint(5, 8)]
    ends = list(pairwise(sites))
    if random.random() < 0.5:
        ends.append((sites[-1], sites[0]))
    two_ways = random.random() < 0.5
    pairs = {(a, b) if random.random() < 0.5 else (b, a) for a, b in ends}
    if two_ways:
        pairs |= {(b, a) for a, b in ends}
    for _ in range(random.randint(0, 3)):
        a, b = random.sample(sites, 2)
        pairs.add((a, b))
    own_only, partners = random.choice([0, 0, 0.3]), random.choice([0, 0, 0.2])
    links = [
        Link(
            a,
            b,
            "own" if random.random() < own_only else "all",
            "partner" if random.random() < partners else "own",
        )
        for a, b in sorted(pairs)
    ]
    return Shape(sites, tuple(links))
