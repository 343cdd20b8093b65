"""Where partitions begin of which the mirror's books know nothing: `--from`, asked of the clusters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from fairlead.mirror.books.connect import mirrormaker_ends
from fairlead.mirror.ports import Cluster, Place
from fairlead.mirror.whence import From
from fairlead.model.errors import BadRequest, InvalidValue


class Begins(NamedTuple):
    """Where each partition of a question begins."""

    offsets: Mapping[Place, int]
    taken_over: frozenset[Place]
    """Those that go on where another mirror has ended."""


def names_none(begin: From, planned: Iterable[Place]) -> list[str]:
    """What a file with offsets names that is none of these partitions; a mistyped topic begins at its start."""
    there = set(planned)
    return [f"{topic}-{partition}" for topic, partition in begin.offsets if Place(topic, partition) not in there]


async def begins(
    begin: From,
    source: Cluster,
    destination: Cluster,
    group: str | None,
    starts: Mapping[Place, int],
    ends: Mapping[Place, int],
    silent: Iterable[Place] = (),
    known: Collection[Place] = (),
) -> Begins:
    """Where the partitions of `starts` and `ends` begin, and those that are `silent` now, if they go on where another
    mirror has ended. Those that are `known` were mirrored before, so what another one left is nothing to them.

    Raises:
        BadRequest: there is nothing to begin from.
        TryAgain
    """
    places: Sequence[Place] = list(starts)
    match begin.what:
        case _ if not places:
            return Begins({}, frozenset())
        case "latest":
            return Begins(ends, frozenset())
        case "time":
            return Begins(await source.offsets(places, begin.timestamp_ms), frozenset())
        case "group" | "mm2" | "file":
            asked = [place for place in (*places, *silent) if place not in known]
            found = await _of_others(begin, source, destination, group, asked) if asked else {}
            taken = {place: found[place] for place in asked if place in found}
            if begin.what == "group" and not taken and not known:
                raise BadRequest(
                    f"--from group: group {group} has committed nothing of the topics that are to be mirrored; without "
                    "--from they begin at their start"
                )
            return Begins({**starts, **taken}, frozenset(taken))
    return Begins(starts, frozenset())


async def _of_others(
    begin: From, source: Cluster, destination: Cluster, group: str | None, places: Sequence[Place]
) -> Mapping[Place, int]:
    if begin.what == "file":
        return {Place(*place): offset for place, offset in begin.offsets.items()}
    if begin.what == "mm2":
        return await mirrormaker_ends(destination, places, begin.alias, begin.offsets_topic, begin.connector)
    if group is None:
        raise InvalidValue("--from group: the consumer.config has no group.id, whose commits would say where to begin")
    return await source.committed(group, places)
