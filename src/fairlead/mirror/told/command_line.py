"""What the command line says, checked before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from fairlead.mirror.aliases import Aliases
from fairlead.mirror.bytes.handled import handler_named
from fairlead.mirror.configs import CONFIGS_EXCLUDE, Copied
from fairlead.mirror.names import NOTHING, Chosen, ChosenGroups, expression_of
from fairlead.mirror.options import (
    ENGINES,
    INTERVAL_MS_MIN,
    NAME,
    REPLICATION_MAX,
    Follows,
    GoesOn,
    GroupOptions,
    Heartbeats,
    MirrorOptions,
    OffsetSyncs,
    check_name,
)
from fairlead.mirror.ports import CLUSTERS_OWN
from fairlead.mirror.told.words import USUAL, Words
from fairlead.mirror.whence import EARLIEST, parse_from
from fairlead.model.addresses import parse_address
from fairlead.model.errors import InvalidValue

_FILE_SAYS: Final[Mapping[str, str]] = {
    "--consumer.config": "consumer_configs",
    "--producer.config": "producer_config",
    "--whitelist": "whitelist",
    "--blacklist": "blacklist",
    "--prefix": "prefix",
    "--source.alias": "source_aliases",
    "--target.alias": "target_alias",
    "--emit.heartbeats": "heartbeats",
    "--emit.heartbeats.interval.seconds": "heartbeats_seconds",
    "--emit.offset.syncs": "offset_syncs",
    "--offset.syncs.topic.location": "offset_syncs_location",
    "--offset.lag.max": "offset_lag_max",
    "--replication.factor": "replication",
    "--preserve.partitions": "preserve_partitions",
    "--preserve.order": "preserve_order",
    "--groups": "groups",
    "--groups.exclude": "groups_exclude",
    "--sync.group.offsets": "sync_group_offsets",
    "--sync.group.offsets.interval.seconds": "sync_group_seconds",
    "--sync.topic.configs": "sync_topic_configs",
    "--config.properties.exclude": "config_properties_exclude",
    "--use.defaults.from": "use_defaults_from",
    "--sync.topic.acls": "sync_topic_acls",
}
"""What a file of MirrorMaker 2 says by itself, by the option that would say it again."""


def checked(words: Words) -> MirrorOptions:
    """The options, once each of them makes sense by itself.

    Raises:
        InvalidValue: one does not; the message names it.
    """
    _check_files(words)
    _check_numbers(words)
    if words.name is not None:
        check_name(words.name, "--name")
    if words.handler_args is not None and words.handler is None:
        raise InvalidValue("--message.handler.args is for a --message.handler, and none is given")
    return MirrorOptions(
        consumer_configs=tuple(words.consumer_configs),
        producer_config=words.producer_config,
        mm2_config=words.mm2_config,
        clusters=_words(words.clusters),
        chosen=_checked_topics(words),
        engine=_one_of("--engine", words.engine, ENGINES),
        prefix=_checked_prefix(words.prefix),
        source_aliases=_checked_aliases(words.source_aliases, len(words.consumer_configs)),
        target_alias=check_name(words.target_alias, "--target.alias"),
        offset_syncs=_checked_syncs(words),
        heartbeats=_checked_heartbeats(words),
        replication=_checked_replication(words.replication),
        streams=words.streams,
        producers=words.producers,
        preserve_partitions=words.preserve_partitions,
        preserve_order=words.preserve_order,
        queue_records=words.queue_records,
        name=words.name,
        handler=None if words.handler is None else handler_named(words.handler, words.handler_args),
        handler_name=words.handler,
        handler_args=words.handler_args,
        commit_seconds=None if words.commit_interval_ms is None else words.commit_interval_ms / 1000,
        aborts=_is_true("--abort.on.send.failure", words.abort_on_send_failure),
        begin=EARLIEST if words.begin is None else parse_from(words.begin),
        begin_given=words.begin is not None,
        goes_on=GoesOn(
            gap=_goes_on("--on.gap", words.on_gap),
            truncated=_goes_on("--on.truncated", words.on_truncated),
            recreated=_goes_on("--on.recreated", words.on_recreated),
        ),
        exactly_once=words.exactly_once,
        groups=GroupOptions(
            sync=_is_true("--sync.group.offsets", words.sync_group_offsets),
            chosen=ChosenGroups.of(words.groups, words.groups_exclude),
            rewind=words.groups_rewind,
        ),
        follows=Follows(
            settings=_is_true("--sync.topic.configs", words.sync_topic_configs),
            copied=Copied(
                _excluded(words.config_properties_exclude),
                defaults_of_source=_of_source("--use.defaults.from", words.use_defaults_from),
            ),
            acls=words.sync_topic_acls,
        ),
        group_seconds=words.sync_group_seconds,
        once=words.once,
        dry_run=words.dry_run,
        takeover=words.takeover,
        verbose=words.verbose,
        http=None if words.http is None else parse_address(words.http, "--http"),
        insecure=words.insecure,
    )


def _check_files(words: Words) -> None:
    """Either a file for each cluster, or one for all of them."""
    if words.mm2_config is not None:
        for option, field in _FILE_SAYS.items():
            if option in words.given or getattr(words, field) != getattr(USUAL, field):
                raise InvalidValue(
                    f"{option} and --mm2.config: the file of MirrorMaker 2 says that; leave the option out"
                )
    elif not words.consumer_configs:
        raise InvalidValue("--consumer.config FILE is missing: say from which cluster; it may be given several times")
    elif words.producer_config is None:
        raise InvalidValue("--producer.config FILE is missing: say to which cluster")
    elif words.clusters:
        raise InvalidValue("--clusters chooses among the flows of --mm2.config, which is not given")


def _check_numbers(words: Words) -> None:
    numbers = {
        "--num.streams": words.streams,
        "--num.producers": words.producers,
        "--queue.size": words.queue_records,
        "--sync.group.offsets.interval.seconds": words.sync_group_seconds,
    }
    for option, value in numbers.items():
        if value < 1:
            raise InvalidValue(f"{option} {value}: write a number from 1")
    interval_ms = words.commit_interval_ms
    if interval_ms is not None and interval_ms < INTERVAL_MS_MIN:
        raise InvalidValue(
            f"--offset.commit.interval.ms {interval_ms}: write a number of milliseconds from {INTERVAL_MS_MIN}"
        )


def _words(texts: Sequence[str]) -> tuple[str, ...]:
    """Given once for each, or several with commas."""
    return tuple(word.strip() for text in texts for word in text.split(",") if word.strip())


def _checked_prefix(prefix: str) -> str:
    if prefix and not NAME.fullmatch(prefix):
        raise InvalidValue(f"--prefix {prefix!r}: topics have letters, digits, '.', '_' and '-' in their names")
    return prefix


def _checked_topics(words: Words) -> Chosen:
    """Heartbeats are carried with the others."""
    if words.mm2_config is not None:
        return NOTHING
    chosen = Chosen.of(words.whitelist, words.blacklist)
    return replace(chosen, besides=Aliases("", "").heartbeats) if words.heartbeats else chosen


def _checked_aliases(aliases: Sequence[str], sources: int) -> tuple[str, ...]:
    if aliases and len(aliases) != sources:
        raise InvalidValue(f"--source.alias is given {len(aliases)} times and --consumer.config {sources} times")
    return tuple(check_name(alias, "--source.alias") for alias in aliases)


def _checked_heartbeats(words: Words) -> Heartbeats | None:
    if not words.heartbeats:
        return None
    if not words.source_aliases:
        raise InvalidValue("--emit.heartbeats needs --source.alias: heartbeats name the clusters")
    if words.heartbeats_seconds < 1:
        raise InvalidValue(f"--emit.heartbeats.interval.seconds {words.heartbeats_seconds}: write a number from 1")
    return Heartbeats(float(words.heartbeats_seconds))


def _checked_syncs(words: Words) -> OffsetSyncs | None:
    at_source = _of_source("--offset.syncs.topic.location", words.offset_syncs_location)
    if words.offset_lag_max < 0:
        raise InvalidValue(f"--offset.lag.max {words.offset_lag_max}: write a number from 0")
    if words.offset_syncs and not words.source_aliases:
        raise InvalidValue("--emit.offset.syncs needs --source.alias: the topic is named by the clusters")
    return OffsetSyncs(at_source, words.offset_lag_max) if words.offset_syncs else None


def _checked_replication(replication: int) -> int:
    if replication != CLUSTERS_OWN and not 1 <= replication <= REPLICATION_MAX:
        raise InvalidValue(
            f"--replication.factor {replication}: write a number from 1 to {REPLICATION_MAX:,}, or -1 for the "
            "destination's own"
        )
    return replication


def _excluded(text: str | None) -> str:
    return CONFIGS_EXCLUDE if text is None else expression_of(text, "--config.properties.exclude")


def _goes_on(option: str, word: str) -> bool:
    return _one_of(option, word, ("stop", "continue")) == "continue"


def _of_source(option: str, word: str) -> bool:
    return _one_of(option, word, ("source", "target")) == "source"


def _is_true(option: str, word: str | None) -> bool:
    return word is not None and _one_of(option, word, ("true", "false"), word.lower()) == "true"


def _one_of(option: str, word: str, known: Sequence[str], meant: str | None = None) -> str:
    meant = word if meant is None else meant
    if meant not in known:
        raise InvalidValue(f"{option} {word!r}: write {' or '.join(known)}")
    return meant
