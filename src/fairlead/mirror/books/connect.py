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


async def mirrormaker_ends(destination: Cluster, alias: str | None, topic: str | None) -> Mapping[Place, int]:
    """Partition of the source → the next offset to mirror, where a MirrorMaker 2 that called the source `alias` ended.

    Args:
        alias: None: the one that is found in the name of a topic of offsets.
        topic: where Connect kept the offsets; None: where MirrorMaker 2 has them kept by itself.

    Raises:
        BadRequest: there are none, or it is not plain which.
        TryAgain
    """
    if alias is None:
        alias = _only_alias(await destination.topics(None))
    topic = topic or _OFFSETS_TOPIC.format(alias)
    if topic not in await destination.topics([topic]):
        raise BadRequest(f"--from mm2: the destination has no topic {topic}, in which MirrorMaker 2 keeps its offsets")
    found = ends_of(await Journal(destination, topic).news(), alias)
    if not found:
        raise BadRequest(f"--from mm2: topic {topic} of the destination has no offsets of a cluster {alias}")
    return found


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


def ends_of(records: Iterable[KeyAndValue], alias: str) -> Mapping[Place, int]:
    """What records of Connect's topic of offsets say of a source, the oldest first."""
    found: dict[Place, int] = {}
    for key, value in records:
        place = _place(key, alias)
        if place is None:
            continue
        offset = _offset(value)
        if offset is None:
            found.pop(place, None)
        else:
            found[place] = offset + 1
    return found


def _place(key: bytes | None, alias: str) -> Place | None:
    """The partition that a key names; None: it is of another cluster, or of a connector that mirrors no topics."""
    match _read(key):
        case [str(), {"cluster": cluster, "topic": str(topic), "partition": int(partition)}] if cluster == alias:
            return Place(topic, partition)
    return None


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
