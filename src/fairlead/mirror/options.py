"""What a mirror is told: values, each of which makes sense by itself (`told/` reads and checks them)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.mirror.aliases import Aliases
from fairlead.mirror.bytes.handled import Handler
from fairlead.mirror.configs import Copied
from fairlead.mirror.names import Chosen, ChosenGroups
from fairlead.mirror.ports import CLUSTERS_OWN
from fairlead.mirror.whence import From
from fairlead.model.addresses import Address
from fairlead.model.errors import InvalidValue

SPARK: Final = "spark"
LOCAL: Final = "local"
ENGINES: Final = (SPARK, LOCAL)
"""Who carries: Spark's tasks, or the process itself."""
REPLICATION_MAX: Final = 32_767
INTERVAL_MS_MIN: Final = 100
"""Of what is done again and again."""
NAME_LENGTH_MAX: Final = 200
"""Of a mirror's name, which is part of the name of a topic (Kafka allows 249)."""
NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class GoesOn:
    """After which losses a partition goes on by itself, instead of standing still until somebody has looked."""

    gap: bool = False
    """Records expired at the source before they were mirrored: go on at what is left."""
    truncated: bool = False
    """The source has lost records that were mirrored: go on where its log ends now."""
    recreated: bool = False
    """A topic was deleted at the source and made again: mirror the new one into the same topic, from its start."""


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Which consumer groups go with their topics, and how."""

    sync: bool
    """Their offsets are committed at the destination."""
    chosen: ChosenGroups
    rewind: bool
    """Also where they go backward by it."""
    checkpoints: bool = True
    """Written in MirrorMaker 2's form, if the source has an alias."""


@dataclass(frozen=True, slots=True)
class Follows:
    """What of a topic follows its source after it was made."""

    settings: bool
    copied: Copied
    acls: bool


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """Records by which MirrorMaker 2's tools see that a flow is alive."""

    seconds: float = 1.0
    at_source: bool = True
    """Written there, so that they are mirrored."""
    at_target: bool = True
    replication: int = CLUSTERS_OWN
    """Replicas of the topic, where it is made."""


@dataclass(frozen=True, slots=True)
class OffsetSyncs:
    """Records by which MirrorMaker 2's checkpoints translate offsets."""

    at_source: bool
    """Else at the destination."""
    lag_max: int
    """So many records of a partition lie between two of them at most."""
    replication: int = CLUSTERS_OWN
    """Replicas of the topic, where it is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOptions:
    """Everything that the command line says; files are not read yet."""

    consumer_configs: tuple[Path, ...]
    producer_config: Path | None
    mm2_config: Path | None
    """In place of both: its flows say what else is here."""
    clusters: tuple[str, ...]
    """With `mm2_config`: only the flows to these."""
    chosen: Chosen
    engine: str
    """One of `ENGINES`."""
    prefix: str
    source_aliases: tuple[str, ...]
    """What MirrorMaker 2 would call each source; none: they have no such names."""
    target_alias: str
    separator: str = "."
    """Between an alias and the name of a topic."""
    internal_separator: str = "."
    """The same, in the names of MirrorMaker 2's own topics."""
    heartbeats: Heartbeats | None
    offset_syncs: OffsetSyncs | None
    replication: int
    """Replicas of mirrored topics that are made."""
    grows_all: bool = False
    """Whether topics of the destination grow with their sources, whoever made them."""
    streams: int
    """Fetching streams per source."""
    producers: int
    """Produce connections to each broker of the destination."""
    preserve_partitions: bool
    preserve_order: bool
    queue_records: int
    name: str | None
    handler: Handler | None
    """The user's function for all records."""
    handler_name: str | None
    handler_args: str | None
    """By what it is found, for other processes."""
    begin: From
    begin_given: bool
    """Whether the command line says so."""
    commit_seconds: float | None
    """How often positions are written and the group commits, if that is not as usual."""
    aborts: bool
    """A batch that the destination refuses for good ends the process, not its partition alone."""
    goes_on: GoesOn
    exactly_once: bool
    """Batches and positions go in transactions of the destination."""
    groups: GroupOptions
    follows: Follows
    group_seconds: float
    """How often groups are moved."""
    once: bool
    dry_run: bool
    takeover: bool
    verbose: bool
    """A progress line for each topic."""
    http: Address | None
    """Where the mirror can be watched."""
    insecure: bool
    """From other machines too."""

    def aliases(self, number: int) -> Aliases | None:
        """Of the source of that number and the destination."""
        if not self.source_aliases:
            return None
        return Aliases(self.source_aliases[number], self.target_alias, self.separator, self.internal_separator)


def check_name(name: str, what: str) -> str:
    """The name, if it can be part of a topic's name. Raises: InvalidValue."""
    if not NAME.fullmatch(name) or len(name) > NAME_LENGTH_MAX:
        raise InvalidValue(
            f"{what} {name!r}: names are made of letters, digits, '.', '_' and '-', at most {NAME_LENGTH_MAX} of them"
            f"{'' if what.startswith('--') else '; choose one with --name'}"
        )
    return name
