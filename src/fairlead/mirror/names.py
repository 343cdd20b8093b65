"""Which topics a mirror carries, and what they are called at the destination.

An expression must match a whole name, as Kafka's own tools have it, and a comma stands for `|`. Topics by which
clusters and mirrors keep their own books are never carried.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from fairlead.mirror.aliases import Aliases
from fairlead.model.errors import InvalidValue
from fairlead.model.expressions import whole_matches

TOPIC_NAME_LENGTH_MAX: Final = 249
"""Kafka's."""
POSITIONS: Final = "fairlead-mirror.{}.internal"
"""Name of the topic in which a mirror of that name keeps its positions."""
REGISTRY: Final = "fairlead-mirror.producers.internal"
"""Name of the topic that says which producer ids of a cluster belong to mirrors, and from where they carry."""
_BOOKS: Final = re.compile(
    r"__.*"  # Kafka's own, and Confluent's by their custom
    r"|fairlead-mirror\..+\.internal"
    r"|mm2-(?:configs|offsets|status|offset-syncs)\..+\.internal"
    r"|.+\.checkpoints\.internal"
)


def positions_topic(name: str) -> str:
    """The topic of the positions of the mirror `name`."""
    return POSITIONS.format(name)


def is_positions_topic(topic: str) -> bool:
    """Whether a mirror keeps its positions there, as its name says."""
    start, end = POSITIONS.split("{}")
    return topic.startswith(start) and topic.endswith(end) and topic != REGISTRY


def keeps_books(topic: str) -> bool:
    """Whether the name is one of those by which a cluster or a mirror keeps its own books."""
    return _BOOKS.fullmatch(topic) is not None


def expression_of(text: str, option: str) -> str:
    """An expression as Kafka's tools read it: `|` for commas, without blanks and quotes. Raises: InvalidValue."""
    expression = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    check_expression(expression, f"{option} {text!r}")
    return expression


@dataclass(frozen=True, slots=True)
class ChosenGroups:
    """Which consumer groups go with their topics."""

    include: str
    exclude: str
    """Empty: none is left out."""

    @classmethod
    def of(cls, include: str, exclude: str) -> Self:
        """As options say. Raises: InvalidValue."""
        return cls(expression_of(include, "--groups"), expression_of(exclude, "--groups.exclude"))

    def among(self, groups: Iterable[str]) -> list[str]:
        """Those that go with their topics, in the order of their names."""
        names = sorted(groups)
        if not names:
            return []
        wanted = whole_matches(self.include, names)
        unwanted = whole_matches(self.exclude, names) if self.exclude else [False] * len(names)
        return [name for name, yes, no in zip(names, wanted, unwanted, strict=True) if yes and not no]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The one expression that chooses topics."""

    expression: str
    """With `|` for commas, without the blanks and quotes that Kafka's tools leave out too."""
    excludes: bool
    """Whether it names the topics that are left out."""
    unless: str | None = None
    """Expression for topics that are left out all the same."""
    besides: str | None = None
    """Expression for topics that are carried whatever the others say."""

    @classmethod
    def of(cls, whitelist: str | None, blacklist: str | None) -> Self:
        """Exactly one of the two. Raises: InvalidValue."""
        given = [text for text in (whitelist, blacklist) if text]
        if len(given) != 1:
            raise InvalidValue("exactly one of --whitelist and --blacklist is needed, and it may not be empty")
        option = "--whitelist" if whitelist else "--blacklist"
        return cls(expression_of(given[0], option), excludes=not whitelist)

    def among(self, topics: Iterable[str]) -> list[str]:
        """Those that are to be carried, in the order of their names."""
        names = sorted(topic for topic in topics if not keeps_books(topic))
        chosen = set(names) - _matching(self.expression, names) if self.excludes else _matching(self.expression, names)
        chosen = (chosen - _matching(self.unless, names)) | _matching(self.besides, names)
        return [name for name in names if name in chosen]


NOTHING: Final = Chosen("", excludes=False)


def check_expression(expression: str, what: str) -> None:
    """Raises: InvalidValue: it is none, and `what` says where it stands."""
    try:
        whole_matches(expression, [""])
    except pa.ArrowInvalid as error:
        raise InvalidValue(f"{what} is not a regular expression: {error}") from None


def _matching(expression: str | None, names: Sequence[str]) -> set[str]:
    if expression is None or not names:
        return set()
    return {name for name, match in zip(names, whole_matches(expression, names), strict=True) if match}


@dataclass(frozen=True, slots=True)
class Named:
    """What became of the topics of one source."""

    carried: Mapping[str, str]
    """Source topic → destination topic."""
    refused: Mapping[str, str]
    """Source topic → why it cannot be carried; somebody must change something."""
    left_out: Mapping[str, str]
    """Source topic → why it is not carried; that is well so."""


def destinations(
    topics: Sequence[str],
    prefix: str,
    *,
    same_cluster: bool,
    taken: Mapping[str, str],
    looping: Container[str] = (),
    returning: Container[str] = (),
    aliases: Aliases | None = None,
) -> Named:
    """Where these topics of one source go; those in `looping` are copies of topics of the destination, and so are those
    of which `aliases` say it by their names, where copies are named so. Those in `returning` are the destination's own.

    `taken` has the destination topics of the other sources, with the source that each comes from: two topics in one
    would lie in it mingled, and nobody could tell them apart. Within one cluster a topic may not be its own
    destination, and what bears the prefix already is taken for what the mirror made, else there would be
    `a_a_topic`, `a_a_a_topic` and so on for ever.
    """
    carried: dict[str, str] = {}
    refused: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for topic in topics:
        name = prefix + topic if aliases is None else aliases.remote(topic, prefix)
        if same_cluster and not prefix:
            refused[topic] = "source and destination are one cluster, and without --prefix it would be its own copy"
        elif same_cluster and topic.startswith(prefix):
            left_out[topic] = f"it begins with {prefix} already, in the one cluster that is source and destination"
        elif topic in looping:
            left_out[topic] = "mirrors made it from a topic of the destination: it would go back there"
        elif topic in returning:
            left_out[topic] = "the destination owns it, and the source keeps a copy of it: it would go back there"
        elif aliases is not None and name == aliases.prefix + topic and aliases.is_cycle(topic):
            left_out[topic] = f"its name says that it came from {aliases.target}, the destination"
        elif len(name) > TOPIC_NAME_LENGTH_MAX:
            refused[topic] = f"its name with the prefix is longer than {TOPIC_NAME_LENGTH_MAX} letters"
        elif name in taken:
            refused[topic] = f"{name} is where a topic of {taken[name]} goes; give each source a mirror and a --prefix"
        else:
            carried[topic] = name
    return Named(carried, refused, left_out)
