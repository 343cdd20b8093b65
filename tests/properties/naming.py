"""What topics were called, at which sites and since when; and what must hold of that (8).

A topic is its incarnation; a name is what a site calls it. It is given once, where the topic is first made there: what
the link that brings it puts before names, and the sender's name; or one that says its owner, or that somebody chose,
where that one is taken. From then on only its owner changes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from tests.properties.shape import DIVERGED, IDS, Link, Shape, lets_by

from fairlead.model.names import TOPIC_NAME_LENGTH_MAX, fitting, is_topic_name, prefixed
from fairlead.streamlog.payloads import TopicPayload
from fairlead.streamlog.rows import Row
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import NAME_HELD, NO_NAME_HERE, Topic

ALIAS = ".at."
"""In the names that a site gives by itself."""


class ShowsNames(Protocol):
    """A site, as far as names go."""

    @property
    def name(self) -> str: ...
    @property
    def stream_id(self) -> bytes: ...


@dataclass
class NamesGiven:
    """Of all topics, at all sites."""

    shape: Shape
    ever: dict[tuple[str, bytes], list[str]] = field(default_factory=dict)
    """By site and incarnation, every name that it had there, the last one last."""
    homes: dict[bytes, set[str]] = field(default_factory=dict)
    """By incarnation, the names that its owners gave it."""
    chosen: set[str] = field(default_factory=set)
    """Names that somebody gave a topic at one site."""
    aliasing: set[str] = field(default_factory=set)
    """Sites that have given names by themselves from the beginning."""

    def see(
        self, site: ShowsNames, row: Row, before: TopicPayload | None, topic: TopicPayload, cut: bytes | None
    ) -> None:
        """A site has announced what a topic is. `cut`: it is a diverged one, of that incarnation."""
        is_renamed = before is not None and before.name != topic.name
        assert before is None or not is_renamed or _said_by_owner(before) != _said_by_owner(topic), (
            f"{site.name}: {before.name} is called {topic.name} now, and its owner calls it {topic.home} as before"
        )
        if cut is not None:
            self._is_called_as(topic, cut)
        elif row.via is None and topic.owner == site.stream_id:
            self.homes.setdefault(topic.incarnation, set()).add(topic.home)
            assert not is_renamed or topic.home == topic.name
        elif row.via is not None and (is_renamed or before is None):
            self._was_told(site, row, topic, is_renamed=is_renamed)
        ever = self.ever.setdefault((site.name, topic.incarnation), [])
        if topic.name in ever:
            ever.remove(topic.name)
        ever.append(topic.name)

    def _is_called_as(self, topic: TopicPayload, cut: bytes) -> None:
        """Holders of a tail who call its topic by different names agree what its owner calls that of the tail."""
        beginnings = [fitting(home, DIVERGED) for home in self.homes.get(cut, ())]
        assert any(topic.home.startswith(each) for each in beginnings) or len(topic.home) == TOPIC_NAME_LENGTH_MAX, (
            f"{topic.home} is what was cut off {beginnings}"
        )

    def renamed_or_prefixed(self, incarnation: bytes) -> bool:
        """Sites may call it by several names."""
        return len({name for (_, each), names in self.ever.items() if each == incarnation for name in names}) > 1

    def _was_told(self, site: ShowsNames, row: Row, topic: TopicPayload, *, is_renamed: bool) -> None:
        """A takeover asks a neighbour for what it has, by its names; no link says what is to stand before them."""
        assert topic.home in self.homes.get(topic.incarnation, ()), (
            f"{site.name}: no owner of {topic.name} has called it {topic.home}"
        )
        if row.via_commit < 0:
            return  # it had waited for that name, or its owner's was heard of in an answer
        source = next(name for name in self.shape.sites if IDS[name] == row.via)
        told = self.ever.get((source, topic.incarnation), [])
        prefixes = self.shape.prefixes_of(Link(source, site.name, *self._options(source, site.name)))
        given = {prefixed(prefix, name) for prefix in prefixes for name in told}
        own, alias, _ = topic.name.partition(ALIAS)
        is_cut = len(topic.name) == TOPIC_NAME_LENGTH_MAX
        is_pulled = is_renamed and topic.name in told
        assert is_cut or is_pulled or given & {topic.name, *([own] if alias else ())}, (
            f"{site.name}: {topic.name} came from {source}, where it was called {told}; prefixes {prefixes}"
        )

    def _options(self, source: str, target: str) -> tuple[str, str]:
        link = next((each for each in self.shape.links if (each.source, each.target) == (source, target)), None)
        return ("all", "own") if link is None else (link.forward, link.peer)

    # Which links bring a topic, by the names that it has at their sources

    def brings_now(self, link: Link, incarnation: bytes) -> bool:
        """Whether it does by the name that the topic had last at the source. Where it never was it may have any."""
        ever = self.ever.get((link.source, incarnation), [])
        return not ever or lets_by(self.shape.filter_of(link), ever[-1])

    def may_have_brought(self, link: Link, incarnation: bytes, told: str = "") -> bool:
        """Whether it did at any time, by any name. `told`: in a frame; it may be that of a topic that never was at the
        source, and was deleted."""
        names = self.ever.get((link.source, incarnation)) or [told]
        return any(self.shape.may_have_brought(link, name) for name in names)


def who_waits_for_a_name_waits_for_another_topic(site: ShowsNames, state: ShardState) -> None:
    """8: a name that becomes free is given to the topic that waits for it."""
    for (_, incarnation, _), note in state.all_notes().items():
        if note.create is None:
            continue
        name = note.create.name
        if note.behind.reason.startswith(NAME_HELD):
            holder = state.by_name(name)
            assert holder is not None, f"{site.name}: {incarnation!r} waits for the name {name}, which nobody has"
        elif note.behind.reason.startswith(NO_NAME_HERE):
            assert not is_topic_name(name), f"{site.name}: {incarnation!r} waits, and may be called {name}"


def names_are_the_owners(given: NamesGiven, site: ShowsNames, topic: Topic, owners: str) -> None:
    """8, once nothing moves any more, and where no link has a prefix: a topic is called as its owner calls it, unless
    another one had that name, or somebody gave it one here."""
    others = (names for (at, of), names in given.ever.items() if at == site.name and of != topic.incarnation)
    taken = {name for names in others for name in names}
    own = topic.name in given.chosen or ALIAS in topic.name or DIVERGED in topic.name
    assert topic.name == owners or own or owners in taken, f"{site.name}: {topic.name} is {owners} at its owner"


def nobody_waits_who_has_a_name(site: ShowsNames, state: ShardState) -> None:
    """8, once nothing moves any more: what has a name is brought."""
    for (link, incarnation, _), note in state.all_notes().items():
        known = state.by_incarnation(incarnation)
        if known is not None and note.create is not None and note.behind.reason.startswith((NAME_HELD, NO_NAME_HERE)):
            raise AssertionError(f"{site.name}: {known.name} is here and waits on {link.hex()}: {note.behind}")


def _said_by_owner(topic: TopicPayload) -> tuple[str, object]:
    """What the owner called it last, and how often it was given another name."""
    return topic.home, topic.ext.get("renames")
