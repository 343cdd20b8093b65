"""The flows of MirrorMaker 2's property file, each a mirror of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from fairlead.kafka import ConsumerSettings, ProducerSettings
from fairlead.kafka.configuration.clients import consumer_settings, producer_settings
from fairlead.kafka.configuration.credentials import security_of
from fairlead.kafka.configuration.entries import Entries
from fairlead.kafka.configuration.settings import Security
from fairlead.mirror.aliases import Aliases
from fairlead.mirror.configs import CONFIGS_EXCLUDE, Copied
from fairlead.mirror.mm2 import keys
from fairlead.mirror.mm2.file import Mm2File, Pair
from fairlead.mirror.mm2.unheeded import refuse_impossible, unheeded
from fairlead.mirror.names import Chosen, ChosenGroups, check_expression
from fairlead.mirror.options import (
    Follows,
    GroupOptions,
    Heartbeats,
    MirrorOptions,
    OffsetSyncs,
    check_name,
)
from fairlead.mirror.ports import CLUSTERS_OWN
from fairlead.mirror.running.paces import Paces
from fairlead.mirror.told.files import Flow, Labelled, Warn, flow_of
from fairlead.mirror.told.words import USUAL
from fairlead.mirror.whence import From
from fairlead.model.errors import InvalidValue

_NAME: Final = "mm2"
_REPLICATION: Final = 2
_INTERNAL_REPLICATION: Final = 3
_SUPPORT: Final = ("disabled", "preparing", "enabled")
_BOOLEANS: Final = ("true", "false")
_NEVER_SECONDS: Final = 10.0 * 365 * 24 * 3600


def flows_of(options: MirrorOptions, warn: Warn) -> list[Flow]:
    """The mirrors of a command line. Raises: InvalidValue."""
    return [flow_of(options, warn)] if options.mm2_config is None else flows_of_file(options, warn)


def flows_of_file(options: MirrorOptions, warn: Warn) -> list[Flow]:
    """The flows that are enabled, but for those to clusters that the command line leaves out.

    Raises:
        InvalidValue: something in the file is wrong, or cannot be done here.
    """
    assert options.mm2_config is not None
    file = Mm2File.read(options.mm2_config)
    _check_targets(file, options.clusters)
    enabled = [pair for pair in file.pairs() if _is_enabled(file, pair)]
    pairs = [pair for pair in enabled if not options.clusters or pair.target in options.clusters]
    if not pairs:
        where = f" to {', '.join(options.clusters)}" if enabled else ""
        example = str(next(file.pairs()))
        raise InvalidValue(f"{file.path}: no flow{where} is enabled; write for example {example}.enabled = true")
    warnings: dict[str, None] = dict.fromkeys(unheeded(file))
    flows = [_Reading(file, pair, options, warnings).flow(enabled, alone=len(pairs) == 1) for pair in pairs]
    for warning in warnings:
        warn(warning)
    return flows


def _check_targets(file: Mm2File, targets: Sequence[str]) -> None:
    for target in targets:
        if target not in file.aliases:
            raise InvalidValue(f"--clusters {target}: {file.path} has clusters = {', '.join(file.aliases)}")


def _is_enabled(file: Mm2File, pair: Pair) -> bool:
    return _truth(Entries(file.of_pair(pair), f"{file.path}, {pair}"), "enabled", default=False)


def _truth(entries: Entries, key: str, *, default: bool) -> bool:
    return entries.choice(key, _BOOLEANS, str(default).lower()) == "true"


S = TypeVar("S", ConsumerSettings, ProducerSettings)


class _Reading:
    """One flow, while it is read."""

    def __init__(self, file: Mm2File, pair: Pair, options: MirrorOptions, warnings: dict[str, None]) -> None:
        self._file = file
        self._pair = pair
        self._options = options
        self._warnings = warnings
        self._entries = Entries(file.of_pair(pair), f"{file.path}, {pair}")

    def flow(self, enabled: Collection[Pair], *, alone: bool) -> Flow:
        """The mirror."""
        refuse_impossible(self._entries)
        pair = self._pair
        where = f"{self._file.path}, {pair}"
        consumer = consumer_settings(self._file.consumer_of(pair), f"{where}, consumer")
        producer = producer_settings(self._file.producer_of(pair), f"{where}, producer")
        self._warnings.update(dict.fromkeys([*consumer.warnings, *producer.warnings]))
        sources = [Labelled(pair.source, self._told_again(consumer.settings, Mm2File.consumer_of))]
        destination = self._told_again(producer.settings, Mm2File.producer_of)
        options = replace(
            self._options,
            chosen=self._chosen(),
            prefix=self._prefix(),
            source_aliases=(pair.source,),
            target_alias=pair.target,
            separator=self._separator,
            internal_separator=self._internal_separator,
            replication=self._replication("replication.factor", _REPLICATION),
            grows_all=True,
            streams=max(self._options.streams, self._entries.number("tasks.max", 1, 1)),
            preserve_partitions=True,
            preserve_order=True,
            begin=self._begin(consumer.settings.given.get("auto.offset.reset")),
            heartbeats=self._heartbeats(enabled),
            offset_syncs=self._offset_syncs(),
            exactly_once=self._exactly_once(),
            groups=self._groups(),
            follows=self._follows(),
        )
        name = check_name(self._name(alone=alone), "the name of the flow")
        return Flow(str(pair), name, options, sources, destination, self._paces())

    def _told_again(self, settings: S, of: Callable[[Mm2File, Pair], dict[str, str]]) -> S:
        """With credentials that are read from the file again for each connection."""
        path, pair = self._file.path, self._pair

        def security() -> Security:
            return security_of(Entries(of(Mm2File.read(path), pair), f"{path}, {pair}"))

        return replace(settings, client=replace(settings.client, security_now=security))

    def _name(self, *, alone: bool) -> str:
        given = self._options.name
        if given is not None and alone:
            return given
        return f"{given or _NAME}.{self._pair.source}.{self._pair.target}"

    # ------------------------------------------------------------ topics

    def _chosen(self) -> Chosen:
        included, excluded = self._list("topics", keys.TOPICS), self._list("topics.exclude", keys.TOPICS_EXCLUDE)
        besides = self._aliases.heartbeats if self._carries_heartbeats else None
        return Chosen(included, excludes=False, unless=f"{excluded}|{self._aliases.internal}", besides=besides)

    def _list(self, key: str, default: str) -> str:
        """One expression for a list of them."""
        given = self._entries.given.get(key, default)
        parts = [part.strip() for part in given.split(",") if part.strip()]
        for part in parts:
            check_expression(part, f"{self._entries.where}: {key} {part!r}")
        return "|".join(f"(?:{part})" for part in parts)

    @property
    def _aliases(self) -> Aliases:
        return Aliases(self._pair.source, self._pair.target, self._separator, self._internal_separator)

    def _prefix(self) -> str:
        key = "replication.policy.class"
        policy = self._entries.text(key, keys.DEFAULT_POLICY)
        if policy == keys.IDENTITY_POLICY:
            return ""
        if policy != keys.DEFAULT_POLICY:
            raise self._entries.wrong(
                key,
                f"is {policy}; there are {keys.DEFAULT_POLICY} and {keys.IDENTITY_POLICY}; for other names give up the "
                "file, and use --prefix",
            )
        return self._aliases.prefix

    @property
    def _separator(self) -> str:
        return self._entries.text("replication.policy.separator") or "."

    @property
    def _internal_separator(self) -> str:
        own = _truth(self._entries, "replication.policy.internal.topic.separator.enabled", default=True)
        return self._separator if own else "."

    def _replication(self, key: str, default: int) -> int:
        return self._entries.number(key, default, CLUSTERS_OWN, 32_767)

    def _begin(self, reset: str | None) -> From:
        begin = self._options.begin
        if begin.what == "mm2" and begin.alias is None:
            return replace(begin, alias=self._pair.source)
        if not self._options.begin_given and (reset or "").strip().lower() == "latest":
            return From("latest")
        return begin

    # ------------------------------------------------------------ groups

    def _groups(self) -> GroupOptions:
        return GroupOptions(
            sync=_truth(self._entries, "sync.group.offsets.enabled", default=False),
            chosen=ChosenGroups(self._list("groups", USUAL.groups), self._list("groups.exclude", USUAL.groups_exclude)),
            rewind=self._options.groups.rewind,
            checkpoints=_truth(self._entries, "emit.checkpoints.enabled", default=True),
        )

    def _follows(self) -> Follows:
        """ACLs too, as MirrorMaker 2 has it; where a cluster has no authorizer, that is told."""
        copied = Copied(
            self._list("config.properties.exclude", CONFIGS_EXCLUDE),
            defaults_of_source=self._entries.choice("use.defaults.from", ("source", "target"), "target") == "source",
        )
        return Follows(
            settings=_truth(self._entries, "sync.topic.configs.enabled", default=True),
            copied=copied,
            acls=_truth(self._entries, "sync.topic.acls.enabled", default=True),
        )

    def _group_seconds(self) -> float:
        usual = self._entries.number("emit.checkpoints.interval.seconds", int(Paces().groups), 1)
        return float(self._entries.number("sync.group.offsets.interval.seconds", usual, 1))

    # ------------------------------------------------------------ MirrorMaker 2's own topics

    @property
    def _carries_heartbeats(self) -> bool:
        return _truth(self._entries, "heartbeats.replication.enabled", default=True)

    def _heartbeats(self, enabled: Collection[Pair]) -> Heartbeats | None:
        """Also at the source, as MirrorMaker 2 has them written by the flow back, if that does not run by itself."""
        back = Pair(self._pair.target, self._pair.source)
        there = Entries(self._file.of_pair(back), f"{self._file.path}, {back}")
        at_source = back not in enabled and _truth(there, "emit.heartbeats.enabled", default=True)
        at_target = _truth(self._entries, "emit.heartbeats.enabled", default=True)
        if not at_source and not at_target:
            return None
        seconds = self._entries.number("emit.heartbeats.interval.seconds", 1, 1)
        factor = self._replication("heartbeats.topic.replication.factor", _INTERNAL_REPLICATION)
        return Heartbeats(float(seconds), at_source, at_target, factor)

    def _offset_syncs(self) -> OffsetSyncs | None:
        """Only where the file asks for them."""
        location = self._entries.choice("offset-syncs.topic.location", ("source", "target"), "source")
        lag_max = self._entries.number("offset.lag.max", USUAL.offset_lag_max)
        factor = self._replication("offset-syncs.topic.replication.factor", _INTERNAL_REPLICATION)
        asked = _truth(self._entries, "emit.offset-syncs.enabled", default=False)
        return OffsetSyncs(location == "source", lag_max, factor) if asked else None

    def _exactly_once(self) -> bool:
        """A setting of Connect's workers, of which the target has some: what is said of the target wins."""
        own = Entries(self._file.of_cluster(self._pair.target), self._entries.where)
        entries = own if keys.EXACTLY_ONCE in own.given else self._entries
        return self._options.exactly_once or entries.choice(keys.EXACTLY_ONCE, _SUPPORT, "disabled") == "enabled"

    # ------------------------------------------------------------ how often

    def _paces(self) -> Paces:
        paces = Paces(groups=self._group_seconds())
        if not _truth(self._entries, "refresh.topics.enabled", default=True):
            return self._as_told(replace(paces, topics=_NEVER_SECONDS))
        seconds = self._entries.number("refresh.topics.interval.seconds", int(paces.topics), 1)
        return self._as_told(replace(paces, topics=float(seconds)))

    def _as_told(self, paces: Paces) -> Paces:
        told = self._options.commit_seconds
        return paces if told is None else replace(paces, commits=told, positions=told)
