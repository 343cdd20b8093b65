"""The words of the command line, and what each of them is if it is not given: the one place that says so.

It imports nothing of Fairlead: a command line shows its help before it knows a mirror.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """As they are written; nothing is checked yet (`command_line.checked`)."""

    consumer_configs: Sequence[Path] = ()
    producer_config: Path | None = None
    whitelist: str | None = None
    blacklist: str | None = None
    mm2_config: Path | None = None
    clusters: Sequence[str] = ()
    engine: str = "spark"
    prefix: str = ""
    source_aliases: Sequence[str] = ()
    target_alias: str = "target"
    heartbeats: bool = False
    heartbeats_seconds: int = 1
    offset_syncs: bool = False
    offset_syncs_location: str = "source"
    offset_lag_max: int = 100
    replication: int = -1
    streams: int = 1
    producers: int = 1
    preserve_partitions: bool = False
    preserve_order: bool = False
    queue_records: int = 10_000
    name: str | None = None
    handler: str | None = None
    handler_args: str | None = None
    commit_interval_ms: int | None = None
    abort_on_send_failure: str | None = None
    begin: str | None = None
    on_gap: str = "stop"
    on_truncated: str = "stop"
    on_recreated: str = "stop"
    exactly_once: bool = False
    groups: str = ".*"
    groups_exclude: str = "console-consumer-.*, connect-.*, __.*"
    groups_rewind: bool = False
    sync_group_offsets: str = "true"
    sync_group_seconds: int = 5
    sync_topic_configs: str = "true"
    config_properties_exclude: str | None = None
    use_defaults_from: str = "target"
    sync_topic_acls: bool = False
    once: bool = False
    dry_run: bool = False
    takeover: bool = False
    verbose: bool = False
    http: str | None = None
    insecure: bool = False
    given: frozenset[str] = frozenset()
    """Options that stand on the command line, though perhaps with what they are anyway."""


USUAL: Final = Words()
"""A command line without options."""
