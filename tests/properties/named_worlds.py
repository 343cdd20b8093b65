"""Worlds in which sites use one name for several topics, and links put prefixes before names and leave topics out."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.properties.actions import MOVES, Action, Kind, Play, refilter, step
from tests.properties.shape import SHARED, Shape, close_shape

from fairlead.cluster.topic_filter import ALL_TOPICS, LinkTopics, TopicFilter


def any_filter(random: Random, sites: str) -> TopicFilter:
    """Topics of one site, or all but those, also behind prefixes; or all."""
    some = f"(.*\\.)?{random.choice(sites)}.*"
    return random.choice([ALL_TOPICS, TopicFilter(topics=f"{some}|.*{SHARED}.*"), TopicFilter(exclude=some)])


def named_shape(random: Random) -> Shape:
    """Three or four sites in a line or a ring; in some worlds their links leave topics out."""
    shape = close_shape(random)
    some = random.choice([0, 0.5])
    for link in shape.links:
        if random.random() < some:
            shape.filters[link] = [LinkTopics(any_filter(random, shape.sites))]
    return shape


def send(play: Play) -> None:
    choose, slices = play.choose, play.world.slices
    chosen = choose.choice([slices, slices, slices, slices[: len(slices) // 2]])
    length, back = choose.choice([None, None, 1, 2, 5]), choose.choice([0, 0, -1, -1, 1, 5, 50])
    play.links.send(play.link(), chosen, back, length, new_run=choose.random() < 0.2)


def create(play: Play) -> None:
    play.names.create(play.site(), play.choose)


def hand_over(play: Play) -> None:
    play.names.hand_over(play.site(), play.choose)


def take_too_early(play: Play) -> None:
    play.names.take_too_early(play.site(), play.choose)


def rename(play: Play) -> None:
    play.names.rename(play.site(), play.choose)


def take_as(play: Play) -> None:
    play.names.take_as(play.site(), play.choose)


def alias(play: Play) -> None:
    play.names.alias(play.site())


def prefix(play: Play) -> None:
    play.names.prefix(replace(play.link(), side=False), play.choose)


def leave_out(play: Play) -> None:
    """Where links leave topics out."""
    if play.world.shape.filters:
        refilter(play)


OF_NAMES = [
    Action("create", 10, create),
    Action("send", 6, send),
    Action("hand over", 2, hand_over),
    Action("take too early", 3, take_too_early),
    Action("rename", 6, rename),
    Action("take as", 4, take_as),
    Action("alias", 1, alias),
    Action("prefix", 1, prefix),
    Action("refilter", 3, leave_out),
    Action("step", 8, step),
]
REPLACED = {each.name for each in OF_NAMES}
NAMES = Kind(
    named_shape,
    90,
    [*(each for each in MOVES.actions if each.name not in REPLACED), *OF_NAMES],
    {
        **{name: weight for name, weight in MOVES.weights.items() if name not in REPLACED},
        **dict.fromkeys(("take from another", "ask and take"), 2),
        **dict.fromkeys(("grow", "limit", "pass time", "age", "expire topics", "delete records"), 0.7),
        **dict.fromkeys(("fault", "reopen", "take over", "wake", "cut", "try elsewhere", "sweep"), 1),
        "copy": 0.5,
        "stand": 2,
        "announce": 5,
        "delete": 5,
        "exchange": 24,
        "merge": 3,
        "upkeep": 2,
        "roll back": 0,
    },
    MOVES.harmed,
    decides=True,
)
"""Two masters make one name, or it comes from two upstreams; in the end people decide."""
