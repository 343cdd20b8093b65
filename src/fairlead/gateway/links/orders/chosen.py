"""Which topics a command means: a name, a regular expression, a list of names, or all of an owner's."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress
from typing import Final

import pyarrow as pa

from fairlead.cluster.stream import Stream
from fairlead.model.errors import InvalidName, InvalidValue
from fairlead.model.expressions import whole_matches
from fairlead.model.names import check_topic_name, named_place
from fairlead.model.shown import few

TOPICS_MAX: Final = 50_000
"""Of one command."""


def chosen(stream: Stream, topics: str, among: Iterable[str] | None = None, what: str = "") -> list[str]:
    """The names that are meant, each once. An expression means the topics of the stream, or `among` them those of these
    names, which errors call a `what`. Blocking.

    Raises:
        InvalidName, InvalidValue, UnknownTopic
    """
    words = [word.strip() for word in topics.splitlines() if word.strip()]
    if len(words) > 1:
        _check_count(len(words))
        return [check_topic_name(name) for name in dict.fromkeys(words)]
    text = words[0] if words else ""
    try:
        return [stream.topic(check_topic_name(text))[1].name]
    except InvalidName:
        names = list(stream.topic_names() if among is None else among)
        return _matching(names, text, what or f"topic of {stream.path}")


def _matching(names: list[str], expression: str, what: str) -> list[str]:
    """The names that a regular expression matches as a whole, sorted. Blocking: there may be a million. `what` they are
    the names of.

    Raises:
        InvalidValue: the expression is wrong, or matches nothing, or too many.
    """
    try:
        found = list(compress(names, whole_matches(expression, names)))
    except pa.ArrowInvalid as error:
        raise InvalidValue(f"-topic {expression!r} is neither a name nor a regular expression: {error}") from error
    if not found:
        raise InvalidValue(f"-topic {expression!r} matches no {what}")
    _check_count(len(found))
    return sorted(found)


def owned_at(stream: Stream, place: str, topics: str = "") -> list[str]:
    """The names of the topics that a cluster, or the stream at a path, owns by what is known here, sorted; if `topics`
    are given, those that they name or that they match, as of `chosen`. Blocking: there may be a million.

    Raises:
        InvalidName, UnknownTopic
        InvalidValue: the expression is wrong, or these are none, or too many; a topic that is named is another's.
    """
    place = named_place(place)
    by_owner: dict[str, list[str]] = {}
    for topic in stream.topics():
        by_owner.setdefault(stream.owner_path(topic), []).append(topic.name)
    found = [name for owner, names in by_owner.items() if is_at(owner, place) for name in names]
    if not found:
        owners = f"; its topics are owned by {few(sorted(by_owner))}" if by_owner else ", which has none"
        raise InvalidValue(f"-from {place}: it owns no topic of {stream.path}, by what is known here{owners}")
    if topics:
        return _chosen_of(stream, topics, found, place)
    _check_count(len(found))
    return sorted(found)


def _chosen_of(stream: Stream, topics: str, owned: list[str], place: str) -> list[str]:
    """Of the topics that an owner at that place has, those that are meant; one that is named may be ours by now, as the
    same command was given before. Raises as `owned_at`."""
    names = chosen(stream, topics, owned, f"topic of {stream.path} that {place} owns")
    left = (stream.find_topic(name) for name in set(names).difference(owned))
    ours = {each[1].name for each in left if each is not None and each[1].owner == stream.id}
    others = sorted(set(names).difference(owned, ours))
    if others:
        raise InvalidValue(f"-topic: {place} does not own {few(others)}, by what is known here")
    return names


def is_at(owner: str, place: str) -> bool:
    """Whether an owner is the stream at that global path, or a stream of that cluster (`named_place`)."""
    return place == owner or owner.startswith(f"/mapr/{place}/")


def _check_count(count: int) -> None:
    if count > TOPICS_MAX:
        raise InvalidValue(
            f"{count:,} topics: at most {TOPICS_MAX:,} at a time; give -topic with expressions that match fewer, one "
            "after another"
        )
