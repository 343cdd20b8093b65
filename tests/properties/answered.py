"""Worlds in which a source hears of owners as in production: in answers to what it has sent of the owners before.

Many links have no way back, so that a site which only sends hears of them in no other way (amendment 5 of takeovers).
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

from tests.properties.actions import MOVES
from tests.properties.shape import SITES, Link, Shape


def one_way_shape(random: Random) -> Shape:
    """Three or four sites in a line or a ring; of half of the pairs only one sends to the other."""
    sites = SITES[: random.choice([3, 3, 4])]
    ends = [*pairwise(sites), *([(sites[-1], sites[0])] if random.random() < 0.5 else [])]
    links: list[Link] = []
    for a, b in ends:
        ways = [(a, b), (b, a)]
        some = ways if random.random() < 0.5 else [random.choice(ways)]
        links += [Link(*way, "own" if random.random() < 0.05 else "all") for way in some]
    return Shape(sites, tuple(sorted(links, key=str)))


ANSWERED = MOVES._replace(shape=one_way_shape, answers=True)
"""Owners change often there too."""
