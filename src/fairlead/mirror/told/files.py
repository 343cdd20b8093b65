"""What property files say of a mirror: from where, to where, under which name, and how often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from fairlead.kafka import ConsumerSettings, ProducerSettings
from fairlead.kafka.configuration.clients import consumer_settings, producer_settings
from fairlead.kafka.configuration.entries import Entries
from fairlead.kafka.configuration.properties import load_properties
from fairlead.mirror.options import INTERVAL_MS_MIN, MirrorOptions, check_name
from fairlead.mirror.running.paces import Paces
from fairlead.model.errors import InvalidValue

COMMIT_INTERVAL: Final = "auto.commit.interval.ms"
TOPICS_AGE: Final = "metadata.max.age.ms"

Warn = Callable[[str], None]
"""Gets what a person should know."""


class Labelled(NamedTuple):
    """A source."""

    label: str
    settings: ConsumerSettings


@dataclass(frozen=True, slots=True)
class Flow:
    """A mirror that can be run. One process may run several."""

    label: str
    """For people, where there are several."""
    name: str
    """By which it finds its positions."""
    options: MirrorOptions
    sources: Sequence[Labelled]
    destination: ProducerSettings
    paces: Paces


def flow_of(options: MirrorOptions, warn: Warn) -> Flow:
    """The mirror of a command line with files of consumers and a producer.

    Raises:
        InvalidValue: a file cannot be read, or something in it is wrong.
    """
    assert options.producer_config is not None
    path = options.producer_config
    found = producer_settings(load_properties(path), str(path), path)
    _tell(warn, found.warnings)
    sources: list[Labelled] = []
    commit_seconds, topic_seconds = Paces().commits, Paces().topics
    for path in options.consumer_configs:
        properties = load_properties(path)
        read = consumer_settings(properties, str(path), path)
        _tell(warn, read.warnings)
        if "auto.offset.reset" in properties:
            warn(f"{path}: auto.offset.reset has no effect here; --from says where new partitions begin (earliest)")
        sources.append(Labelled(path.name, read.settings))
        entries = Entries(properties, str(path))
        commit_seconds = _seconds(entries, COMMIT_INTERVAL, commit_seconds)
        topic_seconds = _seconds(entries, TOPICS_AGE, topic_seconds)
    paces = Paces(commits=commit_seconds, topics=topic_seconds, groups=options.group_seconds)
    if options.commit_seconds is not None:
        paces = replace(paces, commits=options.commit_seconds, positions=options.commit_seconds)
    name = _name(options, [source.settings.group_id for source in sources])
    return Flow(name, name, options, _told_apart(sources), found.settings, paces)


def _tell(warn: Warn, warnings: Sequence[str]) -> None:
    for warning in warnings:
        warn(warning)


def _seconds(entries: Entries, key: str, most: float) -> float:
    """How often, where the file asks for more often than usual. Raises: InvalidValue."""
    return min(entries.number(key, int(most * 1000), INTERVAL_MS_MIN) / 1000, most)


def _told_apart(sources: Sequence[Labelled]) -> Sequence[Labelled]:
    """Files of one name in several folders are told apart by their number."""
    names = [source.label for source in sources]
    return [
        source if names.count(source.label) == 1 else source._replace(label=f"{source.label} ({number})")
        for number, source in enumerate(sources, 1)
    ]


def _name(options: MirrorOptions, groups: Sequence[str | None]) -> str:
    """Of the mirror: as it is told, or of its groups."""
    if options.name is not None:
        return options.name
    found = sorted({group for group in groups if group})
    if not found:
        raise InvalidValue("no consumer.config has a group.id, by which a mirror finds its positions; give it a --name")
    return check_name("-".join(found), "group.id")
