"""What MirrorMaker 2's tools read, written while a source is mirrored from: heartbeats and offset syncs."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

from fairlead.mirror.books.heartbeats import beat
from fairlead.mirror.options import MirrorOptions
from fairlead.mirror.ports import Cluster
from fairlead.mirror.running.syncing import write_syncs
from fairlead.mirror.source import Source
from fairlead.model.clock import Clock

Emission = tuple[str, Coroutine[Any, Any, None]]
"""What it is, for people; and its work, which ends with BadRequest where it is refused."""


def emissions(
    source: Source, destination: Cluster, options: MirrorOptions, clock: Clock, seconds: float
) -> Iterator[Emission]:
    """All that is asked for; `seconds` is between two looks at the positions."""
    yield from _heartbeats(source, destination, options, clock)
    asked, aliases = options.offset_syncs, source.aliases
    if asked is not None and aliases is not None:
        yield f"offset syncs ({source.label})", write_syncs(source, destination, aliases, asked, clock, seconds)


def _heartbeats(source: Source, destination: Cluster, options: MirrorOptions, clock: Clock) -> Iterator[Emission]:
    asked, aliases = options.heartbeats, source.aliases
    if asked is None or aliases is None:
        return
    ends = {"source": (source.cluster, aliases.target, aliases.source)} if asked.at_source else {}
    if asked.at_target:
        ends["destination"] = (destination, aliases.source, aliases.target)
    for end, (cluster, origin, target) in ends.items():
        work = beat(cluster, origin, target, clock, asked.seconds, asked.replication)
        yield f"heartbeats at the {end} ({source.label})", work


def left_out_at_once(source: Source, options: MirrorOptions) -> Sequence[str]:
    """What was asked for and is not written with `--once`: it is of use only while a mirror goes on."""
    asked = {"heartbeats": options.heartbeats, "offset syncs": options.offset_syncs}
    return [what for what, each in asked.items() if each is not None and source.aliases is not None]
