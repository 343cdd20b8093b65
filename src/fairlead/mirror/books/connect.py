"""Where a MirrorMaker 2 ended: the offsets that Kafka Connect keeps for it at the destination.

A record's key is JSON, `["MirrorSourceConnector", {"cluster": "A", "partition": 0, "topic": "t"}]`, its value
`{"offset": 41}`: that of the last record whose copy was acknowledged when Connect wrote its offsets for the last time.
What it has copied since then, nobody knows: it comes twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.mirror.books.journal import Journal, KeyAndValue
from fairlead.mirror.ports import Cluster, Place
from fairlead.model.errors import BadRequest

_OFFSETS_TOPIC: Final = "mm2-offsets.{}.internal"
_OFFSETS_TOPICS: Final = re.compile(r"mm2-offsets\.(.+)\.internal")


async def mirrormaker_ends(
    destination: Cluster, asked: Iterable[Place], alias: str | None, topic: str | None, connector: str | None = None
) -> Mapping[Place, int]:
    """Partition of the source → the next offset to mirror, where a MirrorMaker 2 that called the source `alias` ended,
    of those that are asked for and that it knew.

    Args:
        alias: None: the one that is found in the name of a topic of offsets.
        topic: where Connect kept the offsets; None: where MirrorMaker 2 has them kept by itself.
        connector: the one whose offsets count; None: all that mirrored that source.

    Raises:
        BadRequest: there are none, or it is not plain which.
        TryAgain
    """
    if alias is None:
        alias = _only_alias(await destination.topics(None))
    topic = topic or _OFFSETS_TOPIC.format(alias)
    if topic not in await destination.topics([topic]):
        raise BadRequest(f"--from mm2: the destination has no topic {topic}, in which MirrorMaker 2 keeps its offsets")
    found = ends_of(await Journal(destination, topic).news(), alias, connector)
    if not found:
        of = "" if connector is None else f" and a connector {connector}"
        raise BadRequest(f"--from mm2: topic {topic} of the destination has no offsets of a cluster {alias}{of}")
    return {place: _only_end(place, found[place], alias) for place in asked if place in found}


def _only_alias(topics: Iterable[str]) -> str:
    found = sorted(match.group(1) for topic in topics if (match := _OFFSETS_TOPICS.fullmatch(topic)) is not None)
    if not found:
        raise BadRequest(
            "--from mm2: the destination has no topic mm2-offsets.ALIAS.internal, in which MirrorMaker 2 keeps its "
            "offsets; if Kafka Connect keeps them elsewhere, write --from mm2:ALIAS,TOPIC"
        )
    if len(found) > 1:
        raise BadRequest(
            f"--from mm2: the destination has offsets of several sources; write --from mm2:ALIAS with one of "
            f"{', '.join(found)}"
        )
    return found[0]


def ends_of(
    records: Iterable[KeyAndValue], alias: str, connector: str | None = None
) -> Mapping[Place, Mapping[str, int]]:
    """What records of Connect's topic of offsets say of a source, the oldest first, by connectors. In one topic there
    may be what several of them say: one that was renamed since, or that mirrors to another cluster."""
    found: dict[Place, dict[str, int]] = {}
    for key, value in records:
        name, place = _place(key, alias)
        if place is None or connector not in (None, name):
            continue
        offset = _offset(value)
        if offset is None:
            found.get(place, {}).pop(name, None)
        else:
            found.setdefault(place, {})[name] = offset + 1
    return {place: ends for place, ends in found.items() if ends}


def _only_end(place: Place, ends: Mapping[str, int], alias: str) -> int:
    """Raises: BadRequest: connectors ended at different offsets, and none of them is chosen."""
    end = next(iter(ends.values()))
    if any(other != end for other in ends.values()):
        told = ", ".join(f"{name} at {offset}" for name, offset in sorted(ends.items()))
        raise BadRequest(
            f"--from mm2: connectors ended at different offsets of topic {place.topic}, partition {place.partition}: "
            f"{told}; write --from mm2:{alias},TOPIC,CONNECTOR with the one that mirrored to this destination last"
        )
    return end


def _place(key: bytes | None, alias: str) -> tuple[str, Place | None]:
    """The connector and the partition that a key names; None: it is of another cluster, or of a connector that mirrors
    no topics."""
    match _read(key):
        case [str(name), {"cluster": cluster, "topic": str(topic), "partition": int(partition)}] if cluster == alias:
            return name, Place(topic, partition)
    return "", None


def _offset(value: bytes | None) -> int | None:
    match _read(value):
        case {"offset": int(offset)} if offset >= 0:
            return offset
    return None


def _read(text: bytes | None) -> object:
    """None where it is no JSON: connectors of others may have other converters."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return None
