"""Which topics of a stream go over a link: those whose names its regular expressions choose.

Always true: what a topic left behind (`<topic>.diverged.…`, `<topic>.pending.…`) is chosen as the topic itself is, so
that the records of a topic that is left out do not come by another name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from fairlead.model.errors import InvalidValue
from fairlead.model.expressions import whole_matches

EXPRESSION_LENGTH_MAX: Final = 1000
_LEFT_BEHIND: Final = (".diverged.", ".pending.")
"""What follows the topic's name in the names of the topics that it leaves behind."""


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """A topic passes if `topics` matches its whole name, or is None, and `exclude` does not."""

    topics: str | None = None
    exclude: str | None = None

    def __bool__(self) -> bool:
        """Whether any topic could be left out."""
        return self.topics is not None or self.exclude is not None

    def passing(self, names: Iterable[str]) -> list[bool]:
        """Which of these names pass."""
        every = list(names)
        bases = [base_of(name) for name in every]
        found = [True] * len(every)
        if self.topics is not None:
            either = zip(whole_matches(self.topics, every), whole_matches(self.topics, bases), strict=True)
            found = [name or base for name, base in either]
        if self.exclude is not None:
            out = zip(whole_matches(self.exclude, every), whole_matches(self.exclude, bases), strict=True)
            found = [passes and not (name or base) for passes, (name, base) in zip(found, out, strict=True)]
        return found

    def narrows(self, before: TopicFilter) -> bool:
        """Whether surely no topic passes that did not pass `before`. Of two expressions nobody says which one matches
        more."""
        fewer = before.topics in {None, self.topics}
        return fewer and before.exclude in {None, self.exclude}

    def passes(self, name: str) -> bool:
        """Whether a topic of this name passes."""
        return self.passing([name])[0]


ALL_TOPICS: Final = TopicFilter()


@dataclass(frozen=True, slots=True)
class LinkTopics:
    """Which topics a link brings, by their names."""

    filter: TopicFilter = ALL_TOPICS
    but_not: TopicFilter | None = None
    """A side copy brings no topic that passes this one: the link beside it does."""

    def __bool__(self) -> bool:
        """Whether any topic could be left out."""
        return bool(self.filter) or self.but_not is not None

    def passing(self, names: Sequence[str]) -> list[bool]:
        """Which of the topics of these names it brings."""
        found = self.filter.passing(names)
        if self.but_not is not None:
            found = [now and not then for now, then in zip(found, self.but_not.passing(names), strict=True)]
        return found


def base_of(name: str) -> str:
    """The name of the topic that has left this one behind; the same name for any other."""
    for mark in _LEFT_BEHIND:
        name = name.partition(mark)[0] or name
    return name


def check_expression(option: str, expression: str | None) -> None:
    """
    Raises:
        InvalidValue: it is none, or too long.
    """
    if expression is None:
        return
    if not 0 < len(expression) <= EXPRESSION_LENGTH_MAX:
        raise InvalidValue(f"{option}: use a regular expression of 1 to {EXPRESSION_LENGTH_MAX:,} characters")
    try:
        whole_matches(expression, [""])
    except pa.ArrowInvalid as error:
        raise InvalidValue(f"{option} {expression!r} is no regular expression: {error}") from error
