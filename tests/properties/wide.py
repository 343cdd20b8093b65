"""Worlds of five to eight sites in which groups go from site to site, topics are taken over with what neighbours have
more of them, tails are claimed, and sites are put back to their backups and recover."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from tests.properties.actions import FOLLOWED, LATE, TAILS
from tests.properties.returning import RETURNS
from tests.properties.shape import SITES, Link, Shape


def wide_shape(random: Random) -> Shape:
    """Five to eight sites in a line, a ring or a star, which send to their neighbours and get from them, but for few
    links that are missing or differ; and perhaps one more way between two of them."""
    sites = SITES[: random.randint(5, 8)]
    ends = [(sites[0], each) for each in sites[1:]] if random.random() < 0.3 else list(pairwise(sites))
    if random.random() < 0.5:
        ends.append((sites[1], sites[-1]))
    pairs = {pair for a, b in ends for pair in ((a, b), (b, a)) if random.random() < 0.95}
    odd = random.choice([0, 0, 0.1])
    links = [
        Link(a, b, "own" if random.random() < odd else "all", "partner" if random.random() < odd else "own")
        for a, b in sorted(pairs)
    ]
    return Shape(sites, tuple(links))


WIDE = tuple(kind._replace(shape=wide_shape) for kind in (LATE, FOLLOWED, TAILS, RETURNS))
"""As in small worlds."""
