"""What a mirror is told on its command line, checked before anything is opened."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fairlead.mirror.aliases import Aliases
from fairlead.mirror.bytes.handled import Handler, handler_named
from fairlead.mirror.configs import CONFIGS_EXCLUDE, Copied
from fairlead.mirror.names import GROUPS_EXCLUDE, NOTHING, Chosen, ChosenGroups, expression_of
from fairlead.mirror.ports import CLUSTERS_OWN
from fairlead.mirror.whence import EARLIEST, From, parse_from
from fairlead.model.addresses import Address, parse_address
from fairlead.model.errors import InvalidValue

SPARK: Final = "spark"
LOCAL: Final = "local"
ENGINES: Final = (SPARK, LOCAL)
"""Who carries: Spark's tasks, or the process itself."""
QUEUE_RECORDS: Final = 10_000
"""Default of `--queue.size`."""
TARGET_ALIAS: Final = "target"
"""MirrorMaker 2's default."""
OFFSET_LAG_MAX: Final = 100
"""MirrorMaker 2's default."""
REPLICATION_MAX: Final = 32_767
GROUP_SECONDS: Final = 5
"""Default of `--sync.group.offsets.interval.seconds`."""
INTERVAL_MS_MIN: Final = 100
"""Of what is done again and again."""
NAME_LENGTH_MAX: Final = 200
"""Of a mirror's name, which is part of the name of a topic (Kafka allows 249)."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class GoesOn:
    """After which losses a partition goes on by itself, instead of standing still until somebody has looked."""

    gap: bool = False
    """Records expired at the source before they were mirrored: go on at what is left."""
    truncated: bool = False
    """The source has lost records that were mirrored: go on where its log ends now."""
    recreated: bool = False
    """A topic was deleted at the source and made again: mirror the new one into the same topic, from its start."""


ALL_GROUPS: Final = ChosenGroups()
COPIED: Final = Copied()


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Which consumer groups go with their topics, and how."""

    sync: bool = True
    """Their offsets are committed at the destination."""
    chosen: ChosenGroups = ALL_GROUPS
    rewind: bool = False
    """Also where they go backward by it."""
    checkpoints: bool = True
    """Written in MirrorMaker 2's form, if the source has an alias."""


@dataclass(frozen=True, slots=True)
class Follows:
    """What of a topic follows its source after it was made."""

    settings: bool = True
    copied: Copied = COPIED
    acls: bool = False


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

    at_source: bool = True
    """Else at the destination."""
    lag_max: int = OFFSET_LAG_MAX
    """So many records of a partition lie between two of them at most."""
    replication: int = CLUSTERS_OWN
    """Replicas of the topic, where it is made."""


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    """Everything that the command line says; files are not read yet."""

    consumer_configs: tuple[Path, ...] = ()
    producer_config: Path | None = None
    mm2_config: Path | None = None
    """In place of both: its flows say what else is here."""
    clusters: tuple[str, ...] = ()
    """With `mm2_config`: only the flows to these."""
    chosen: Chosen = NOTHING
    engine: str = SPARK
    """One of `ENGINES`."""
    prefix: str = ""
    source_aliases: tuple[str, ...] = ()
    """What MirrorMaker 2 would call each source; none: they have no such names."""
    target_alias: str = TARGET_ALIAS
    separator: str = "."
    """Between an alias and the name of a topic."""
    internal_separator: str = "."
    """The same, in the names of MirrorMaker 2's own topics."""
    heartbeats: Heartbeats | None = None
    offset_syncs: OffsetSyncs | None = None
    replication: int = CLUSTERS_OWN
    """Replicas of mirrored topics that are made."""
    grows_all: bool = False
    """Whether topics of the destination grow with their sources, whoever made them."""
    streams: int = 1
    """Fetching streams per source."""
    producers: int = 1
    """Produce connections to each broker of the destination."""
    preserve_partitions: bool = False
    preserve_order: bool = False
    queue_records: int = QUEUE_RECORDS
    name: str | None = None
    handler: Handler | None = None
    """The user's function for all records."""
    handler_name: str | None = None
    handler_args: str | None = None
    """By what it is found, for other processes."""
    begin: From = EARLIEST
    begin_given: bool = False
    """Whether the command line says so."""
    commit_seconds: float | None = None
    """How often positions are written and the group commits, if that is not as usual."""
    aborts: bool = False
    """A batch that the destination refuses for good ends the process, not its partition alone."""
    goes_on: GoesOn = GoesOn()
    exactly_once: bool = False
    """Batches and positions go in transactions of the destination."""
    groups: GroupOptions = GroupOptions()
    follows: Follows = Follows()
    group_seconds: float = GROUP_SECONDS
    """How often groups are moved."""
    once: bool = False
    dry_run: bool = False
    takeover: bool = False
    verbose: bool = False
    """A progress line for each topic."""
    http: Address | None = None
    """Where the mirror can be watched."""
    insecure: bool = False
    """From other machines too."""

    def aliases(self, number: int) -> Aliases | None:
        """Of the source of that number and the destination."""
        if not self.source_aliases:
            return None
        return Aliases(self.source_aliases[number], self.target_alias, self.separator, self.internal_separator)


def checked(
    *,
    consumer_configs: Sequence[Path] = (),
    producer_config: Path | None = None,
    whitelist: str | None = None,
    blacklist: str | None = None,
    mm2_config: Path | None = None,
    clusters: Sequence[str] = (),
    engine: str = SPARK,
    prefix: str = "",
    source_aliases: Sequence[str] = (),
    target_alias: str = TARGET_ALIAS,
    heartbeats: bool = False,
    heartbeats_seconds: int = 1,
    offset_syncs: bool = False,
    offset_syncs_location: str = "source",
    offset_lag_max: int = OFFSET_LAG_MAX,
    replication: int = CLUSTERS_OWN,
    streams: int = 1,
    producers: int = 1,
    preserve_partitions: bool = False,
    preserve_order: bool = False,
    queue_records: int = QUEUE_RECORDS,
    name: str | None = None,
    handler: str | None = None,
    handler_args: str | None = None,
    commit_interval_ms: int | None = None,
    abort_on_send_failure: str | None = None,
    begin: str | None = None,
    on_gap: str = "stop",
    on_truncated: str = "stop",
    on_recreated: str = "stop",
    exactly_once: bool = False,
    groups: str = ".*",
    groups_exclude: str = GROUPS_EXCLUDE,
    groups_rewind: bool = False,
    sync_group_offsets: str = "true",
    sync_group_seconds: int = GROUP_SECONDS,
    sync_topic_configs: str = "true",
    config_properties_exclude: str | None = None,
    use_defaults_from: str = "target",
    sync_topic_acls: bool = False,
    once: bool = False,
    dry_run: bool = False,
    takeover: bool = False,
    verbose: bool = False,
    http: str | None = None,
    insecure: bool = False,
) -> MirrorOptions:
    """The options, once each of them makes sense by itself.

    Raises:
        InvalidValue: one does not; the message names it.
    """
    if mm2_config is not None:
        said = {
            "--consumer.config": consumer_configs,
            "--producer.config": producer_config,
            "--whitelist": whitelist,
            "--blacklist": blacklist,
            "--prefix": prefix,
            "--source.alias": source_aliases,
            "--emit.heartbeats": heartbeats,
            "--emit.offset.syncs": offset_syncs,
            "--replication.factor": replication != CLUSTERS_OWN,
        }
        _check_left_to_file(said)
    elif not consumer_configs:
        raise InvalidValue("--consumer.config FILE is missing: say from which cluster; it may be given several times")
    elif producer_config is None:
        raise InvalidValue("--producer.config FILE is missing: say to which cluster")
    elif clusters:
        raise InvalidValue("--clusters chooses among the flows of --mm2.config, which is not given")
    for option, value in (("--num.streams", streams), ("--num.producers", producers), ("--queue.size", queue_records)):
        if value < 1:
            raise InvalidValue(f"{option} {value}: write a number from 1")
    if name is not None:
        check_name(name, "--name")
    if handler_args is not None and handler is None:
        raise InvalidValue("--message.handler.args is for a --message.handler, and none is given")
    if commit_interval_ms is not None and commit_interval_ms < INTERVAL_MS_MIN:
        raise InvalidValue(
            f"--offset.commit.interval.ms {commit_interval_ms}: write a number of milliseconds from {INTERVAL_MS_MIN}"
        )
    if sync_group_seconds < 1:
        raise InvalidValue(f"--sync.group.offsets.interval.seconds {sync_group_seconds}: write a number from 1")
    return MirrorOptions(
        consumer_configs=tuple(consumer_configs),
        producer_config=producer_config,
        mm2_config=mm2_config,
        clusters=_words(clusters),
        chosen=NOTHING if mm2_config is not None else _checked_topics(whitelist, blacklist, heartbeats),
        engine=_checked_engine(engine),
        prefix=_checked_prefix(prefix),
        source_aliases=_checked_aliases(source_aliases, len(consumer_configs)),
        target_alias=check_name(target_alias, "--target.alias"),
        offset_syncs=_checked_syncs(offset_syncs, offset_syncs_location, offset_lag_max, source_aliases),
        heartbeats=_checked_heartbeats(heartbeats, heartbeats_seconds, source_aliases),
        replication=_checked_replication(replication),
        streams=streams,
        producers=producers,
        preserve_partitions=preserve_partitions,
        preserve_order=preserve_order,
        queue_records=queue_records,
        name=name,
        handler=None if handler is None else handler_named(handler, handler_args),
        handler_name=handler,
        handler_args=handler_args,
        commit_seconds=None if commit_interval_ms is None else commit_interval_ms / 1000,
        aborts=_is_true("--abort.on.send.failure", abort_on_send_failure),
        begin=EARLIEST if begin is None else parse_from(begin),
        begin_given=begin is not None,
        goes_on=GoesOn(
            gap=_goes_on("--on.gap", on_gap),
            truncated=_goes_on("--on.truncated", on_truncated),
            recreated=_goes_on("--on.recreated", on_recreated),
        ),
        exactly_once=exactly_once,
        groups=GroupOptions(
            sync=_is_true("--sync.group.offsets", sync_group_offsets),
            chosen=ChosenGroups.of(groups, groups_exclude),
            rewind=groups_rewind,
        ),
        follows=Follows(
            settings=_is_true("--sync.topic.configs", sync_topic_configs),
            copied=Copied(
                _excluded(config_properties_exclude),
                defaults_of_source=_of_source(use_defaults_from),
            ),
            acls=sync_topic_acls,
        ),
        group_seconds=sync_group_seconds,
        once=once,
        dry_run=dry_run,
        takeover=takeover,
        verbose=verbose,
        http=None if http is None else parse_address(http, "--http"),
        insecure=insecure,
    )


def _check_left_to_file(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value:
            raise InvalidValue(f"{option} and --mm2.config: the file of MirrorMaker 2 says that; leave the option out")


def _words(texts: Sequence[str]) -> tuple[str, ...]:
    """Given once for each, or several with commas."""
    return tuple(word.strip() for text in texts for word in text.split(",") if word.strip())


def _checked_engine(engine: str) -> str:
    if engine not in ENGINES:
        raise InvalidValue(f"--engine {engine!r}: write {' or '.join(ENGINES)}")
    return engine


def check_name(name: str, what: str) -> str:
    """The name, if it can be part of a topic's name. Raises: InvalidValue."""
    if not _NAME.fullmatch(name) or len(name) > NAME_LENGTH_MAX:
        raise InvalidValue(
            f"{what} {name!r}: names are made of letters, digits, '.', '_' and '-', at most {NAME_LENGTH_MAX} of them"
            f"{'' if what.startswith('--') else '; choose one with --name'}"
        )
    return name


def _checked_prefix(prefix: str) -> str:
    if prefix and not _NAME.fullmatch(prefix):
        raise InvalidValue(f"--prefix {prefix!r}: topics have letters, digits, '.', '_' and '-' in their names")
    return prefix


def _checked_topics(whitelist: str | None, blacklist: str | None, heartbeats: bool) -> Chosen:
    """Heartbeats are carried with the others."""
    chosen = Chosen.of(whitelist, blacklist)
    return replace(chosen, besides=Aliases("", "").heartbeats) if heartbeats else chosen


def _checked_aliases(aliases: Sequence[str], sources: int) -> tuple[str, ...]:
    if aliases and len(aliases) != sources:
        raise InvalidValue(f"--source.alias is given {len(aliases)} times and --consumer.config {sources} times")
    return tuple(check_name(alias, "--source.alias") for alias in aliases)


def _checked_heartbeats(asked: bool, seconds: int, aliases: Sequence[str]) -> Heartbeats | None:
    if not asked:
        return None
    if not aliases:
        raise InvalidValue("--emit.heartbeats needs --source.alias: heartbeats name the clusters")
    if seconds < 1:
        raise InvalidValue(f"--emit.heartbeats.interval.seconds {seconds}: write a number from 1")
    return Heartbeats(float(seconds))


def _checked_syncs(asked: bool, location: str, lag_max: int, aliases: Sequence[str]) -> OffsetSyncs | None:
    if location not in ("source", "target"):
        raise InvalidValue(f"--offset.syncs.topic.location {location!r}: write source or target")
    if lag_max < 0:
        raise InvalidValue(f"--offset.lag.max {lag_max}: write a number from 0")
    if asked and not aliases:
        raise InvalidValue("--emit.offset.syncs needs --source.alias: the topic is named by the clusters")
    return OffsetSyncs(location == "source", lag_max) if asked else None


def _checked_replication(replication: int) -> int:
    if replication != CLUSTERS_OWN and not 1 <= replication <= REPLICATION_MAX:
        raise InvalidValue(
            f"--replication.factor {replication}: write a number from 1, or -1 for the destination's own"
        )
    return replication


def _goes_on(option: str, word: str) -> bool:
    if word not in ("stop", "continue"):
        raise InvalidValue(f"{option} {word!r}: write stop or continue")
    return word == "continue"


def _excluded(text: str | None) -> str:
    return CONFIGS_EXCLUDE if text is None else expression_of(text, "--config.properties.exclude")


def _of_source(word: str) -> bool:
    if word not in ("source", "target"):
        raise InvalidValue(f"--use.defaults.from {word!r}: write source or target")
    return word == "source"


def _is_true(option: str, word: str | None) -> bool:
    if word is not None and word.lower() not in ("true", "false"):
        raise InvalidValue(f"{option} {word!r}: write true or false")
    return word is not None and word.lower() == "true"
