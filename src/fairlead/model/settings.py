"""Settings: everything with a default that a site may change, each with its range, and its unit in its name.

A settings file (TOML, `--settings FILE` or `FAIRLEAD_SETTINGS`) gives `name = value` lines; a variable
`FAIRLEAD_<NAME>` overrides the file, an option of the command line overrides both. `docs/guides/settings.md` lists
them all. What belongs to one stream (time-to-live, compression …) is set with `fairlead stream create`, not here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from fairlead.model.errors import InvalidValue
from fairlead.model.limits import COMMIT_BYTES_MAX

PREFIX = "FAIRLEAD_"
OTHER_VARIABLES = frozenset({"FAIRLEAD_CLUSTERS", "FAIRLEAD_CLUSTER", "FAIRLEAD_SETTINGS"})
"""Variables that are no settings; nor are those that start with FAIRLEAD_TEST_."""

MB = 1_000_000
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")

Value = int | float | str


def _setting(default: Any, what: str, low: float = 0, high: float = 2**62, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"what": what, "low": low, "high": high, "choices": choices})


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one cluster's processes, checked."""

    kafka_address: str = _setting("127.0.0.1:9092", "where the Kafka listener listens, HOST:PORT (port 0: any)")
    http_address: str = _setting("127.0.0.1:7660", "where the HTTP listener listens, HOST:PORT (port 0: any)")
    listed_streams: str = _setting(
        "default", "whose topics the main Kafka listener lists: of `default`, or `all`", choices=("default", "all")
    )
    log_level: str = _setting("info", "debug, info, warning or error", choices=LOG_LEVELS)
    log_format: str = _setting("text", "text, or json: one object a line (`--json-logs`)", choices=LOG_FORMATS)

    max_connections: int = _setting(10_000, "Kafka connections at one time", 1, 1_000_000)
    max_connections_per_ip: int = _setting(0, "of one address (0: three quarters of `max_connections`)", 0, 1_000_000)
    max_connection_creation_rate: float = _setting(500.0, "of one address in a second; more wait (0: any)", 0)
    max_http_connections: int = _setting(500, "HTTP connections at one time, links included", 1, 1_000_000)
    http_hosts: str = _setting("", "names that HTTP clients call this server by beside its own, with commas between")
    request_bytes_max: int = _setting(100 * MB, "largest Kafka request; a larger one is refused unread", 1000)
    queued_max_request_bytes: int = _setting(0, "Kafka requests and answers in memory (0: an eighth of the machine's)")
    message_bytes_max: int = _setting(10 * MB, "largest record batch of a producer", 100, COMMIT_BYTES_MAX)
    fetch_bytes_max: int = _setting(55 * MB, "largest answer to a fetch, beside its first batch", 1000)
    max_incremental_fetch_session_cache_slots: int = _setting(1000, "fetch sessions at one time (0: none)", 0, 100_000)
    fetch_session_bytes: int = _setting(0, "what is remembered between fetches (0: a 32nd of the machine's memory)")
    connection_idle_seconds: float = _setting(600.0, "an idle Kafka connection is closed after this", 1)

    linger_ms: int = _setting(0, "how long a commit waits for more (0: up to 3 if many small requests come)", 0, 60_000)
    linger_busy_ms: int = _setting(20, "linger while 50,000 or more commits wait for merging", 0, 60_000)
    commit_bytes_max: int = _setting(32 * MB, "a commit is closed at this size", 1000, COMMIT_BYTES_MAX)
    cache_bytes: int = _setting(0, "newest batches in memory, of all streams together (0: an eighth of the machine's)")
    cache_seconds: float = _setting(300.0, "after this, at most twice this, they leave memory", 1)
    reserve_bytes: int = _setting(320 * MB, "free space kept for control rows and merging")
    reserve_ratio: float = _setting(0.01, "free space kept beside `reserve_bytes`, as a part of the disk", 0, 0.9)

    partner_topics_max: int = _setting(100_000, "topics of an upstream that was added with -peer partner", 1)
    partner_partitions_max: int = _setting(400_000, "partitions of these topics together", 1)
    partner_notes_max: int = _setting(100_000, "partitions that such an upstream may leave behind or in conflict", 1)

    transfer_lag_max: int = _setting(
        10_000, "records of a topic that its new owner may still lack when `stream topic transfer` hands it over"
    )

    pending_after_seconds: float = _setting(
        30.0, "an owner that cannot be reached for so long: what is produced to its topics is put aside (`-pending`)", 0
    )

    merge_interval_seconds: float = _setting(10.0, "how often a shard looks for something to merge", 0.01)
    merge_commits_min: int = _setting(500, "commits that wait before a shard merges them", 1)
    merge_idle_seconds: float = _setting(600.0, "fewer commits than that are merged after this", 0.01)
    segment_bytes_max: int = _setting(256 * MB, "largest merged segment", 1000)
    checkpoint_interval_seconds: float = _setting(600.0, "least time between two checkpoints of a shard", 0)
    topic_expiry_interval_seconds: float = _setting(
        60.0, "how often records expire by their topic's own retention.ms and retention.bytes", 0.01
    )
    delete_grace_seconds: float = _setting(600.0, "merged inputs are deleted this long after their manifest")
    expiry_hold_seconds: float = _setting(
        3600.0, "nothing expires for so long after a start whose clock is further ahead than records live", 0
    )
    tombstone_seconds: float = _setting(30 * 86_400.0, "a deletion is remembered at least this long")

    initial_rebalance_delay_ms: int = _setting(500, "a new consumer group waits this long for members", 0, 600_000)
    session_timeout_min_ms: int = _setting(1000, "shortest session timeout of a group member", 1)
    session_timeout_max_ms: int = _setting(1_800_000, "longest session timeout of a group member", 1)
    group_size_max: int = _setting(10_000, "members of one consumer group", 1)
    group_bytes_max: int = _setting(1 * MB, "subscriptions of one group's members, and their assignments", 1000)
    groups_max: int = _setting(
        100_000, "consumer groups of a server that have members, and of a log that have cursors", 1
    )

    partitions_per_stream_max: int = _setting(2_000_000, "partitions of all topics of one stream that are made here", 1)
    partitions_max: int = _setting(5_000_000, "partitions of all topics of the cluster that are made here", 1)

    round_seconds: float = _setting(120.0, "length of a round of the replicator", 0.5)
    replicator_workers: int = _setting(2, "reading tasks of the replicator", 1, 64)
    frame_bytes: int = _setting(4 * MB, "a frame is cut near this size", 1000, 32 * MB)
    window_bytes: int = _setting(32 * MB, "bytes in flight to one destination", 1000)
    apply_bytes: int = _setting(64 * MB, "frames of all links together that wait to be applied here", 1000)
    position_bytes: int = _setting(64 * MB, "an empty frame moves a position after so much that is not sent", 1000)
    spark_memory_mb: int = _setting(512, "memory of the replicator's JVM; Spark needs 471 to start", 471)


def load(file: Path | None, variables: Mapping[str, str]) -> Settings:
    """The settings of a file (without `file`, the one that FAIRLEAD_SETTINGS names, if any), overridden by variables.

    Raises:
        InvalidValue: the file cannot be read, a name is unknown or a value is outside its range; the message names it.
    """
    named = variables.get("FAIRLEAD_SETTINGS")
    if file is None and named:
        file = Path(named)
    changes = {} if file is None else _from_file(file)
    return changed(Settings(), changes | _from_variables(variables))


def changed(settings: Settings, changes: Mapping[str, object]) -> Settings:
    """A copy with other values, checked.

    Raises:
        InvalidValue: a name is unknown or a value is not of its kind or range.
    """
    checked: dict[str, Any] = {name: _checked(name, value) for name, value in changes.items()}
    return replace(settings, **checked)


def explain() -> list[tuple[str, Value, str]]:
    """Name, default and meaning of every setting, in order."""
    return [(f.name, f.default, f.metadata["what"]) for f in fields(Settings)]  # type: ignore[misc]


def _from_file(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise InvalidValue(f"settings file {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue(f"settings file {file}: {error}") from error


def _from_variables(variables: Mapping[str, str]) -> dict[str, object]:
    return {
        name.removeprefix(PREFIX).lower(): _parsed(name, value)
        for name, value in variables.items()
        if name.startswith(PREFIX) and name not in OTHER_VARIABLES and not name.startswith("FAIRLEAD_TEST_")
    }


def _parsed(variable: str, text: str) -> object:
    """The text of a variable as a value of its setting's kind."""
    setting = _field(variable.removeprefix(PREFIX).lower(), variable)
    kind = _kind(setting)
    try:
        return kind(text)
    except ValueError as error:
        raise InvalidValue(f"{variable}={text!r}: give {_kind_name(kind)}") from error


def _checked(name: str, value: object) -> Value:
    setting = _field(name, name)
    kind = _kind(setting)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise InvalidValue(f"setting {name} = {value!r}: give {_kind_name(kind)}")
    choices = setting.metadata["choices"]
    if isinstance(value, str):
        if choices and value not in choices:
            raise InvalidValue(f"setting {name} = {value!r}: one of {', '.join(choices)}")
        return value
    assert isinstance(value, int | float)
    low, high = setting.metadata["low"], setting.metadata["high"]
    if not low <= value <= high:
        raise InvalidValue(f"setting {name} = {value}: between {low:,} and {high:,}")
    return value


def _field(name: str, shown: str) -> Field[Any]:
    for setting in fields(Settings):
        if setting.name == name:
            return setting
    raise InvalidValue(f"unknown setting {shown}; docs/guides/settings.md lists them")


def _kind(setting: Field[Any]) -> type[int | float | str]:
    default: Any = setting.default
    kind: type[int | float | str] = type(default)
    return kind


def _kind_name(kind: type) -> str:
    return {int: "a whole number", float: "a number", str: "a text"}[kind]
