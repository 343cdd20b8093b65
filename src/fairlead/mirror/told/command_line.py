"""What the command line says, checked before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fairlead.mirror.aliases import Aliases
from fairlead.mirror.bytes.handled import handler_named
from fairlead.mirror.configs import CONFIGS_EXCLUDE, Copied
from fairlead.mirror.names import GROUPS_EXCLUDE, NOTHING, Chosen, ChosenGroups, expression_of
from fairlead.mirror.options import (
    ENGINES,
    GROUP_SECONDS,
    INTERVAL_MS_MIN,
    NAME,
    OFFSET_LAG_MAX,
    QUEUE_RECORDS,
    REPLICATION_MAX,
    SPARK,
    TARGET_ALIAS,
    Follows,
    GoesOn,
    GroupOptions,
    Heartbeats,
    MirrorOptions,
    OffsetSyncs,
    check_name,
)
from fairlead.mirror.ports import CLUSTERS_OWN
from fairlead.mirror.whence import EARLIEST, parse_from
from fairlead.model.addresses import parse_address
from fairlead.model.errors import InvalidValue


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
            "--target.alias": target_alias != TARGET_ALIAS,
            "--emit.heartbeats": heartbeats,
            "--emit.heartbeats.interval.seconds": heartbeats_seconds != 1,
            "--emit.offset.syncs": offset_syncs,
            "--offset.syncs.topic.location": offset_syncs_location != "source",
            "--offset.lag.max": offset_lag_max != OFFSET_LAG_MAX,
            "--replication.factor": replication != CLUSTERS_OWN,
            "--preserve.partitions": preserve_partitions,
            "--preserve.order": preserve_order,
            "--groups": groups != ".*",
            "--groups.exclude": expression_of(groups_exclude, "--groups.exclude") != GROUPS_EXCLUDE,
            "--sync.group.offsets": sync_group_offsets != "true",
            "--sync.group.offsets.interval.seconds": sync_group_seconds != GROUP_SECONDS,
            "--sync.topic.configs": sync_topic_configs != "true",
            "--config.properties.exclude": config_properties_exclude is not None,
            "--use.defaults.from": use_defaults_from != "target",
            "--sync.topic.acls": sync_topic_acls,
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


def _checked_prefix(prefix: str) -> str:
    if prefix and not NAME.fullmatch(prefix):
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
