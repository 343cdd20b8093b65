"""What a Spark user chose: the options of `format("fairlead")`, read once and checked.

Names and meanings are those of Spark's Kafka source (Structured Streaming + Kafka Integration Guide) where it has
them. An unknown option is refused, so that a misspelt one does not silently keep its default.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Literal

from annotated_types import Ge

from fairlead.model.errors import InvalidValue
from fairlead.model.names import check_topic_name
from fairlead.model.strict_json import JsonForm, Unreadable
from fairlead.records.columns import ALL, check_columns
from fairlead.records.given import Values, place_of

EARLIEST: Literal["earliest"] = "earliest"
LATEST: Literal["latest"] = "latest"
OFFSET_LATEST = -1
"""Kafka's `-1` in a JSON of offsets."""
OFFSET_EARLIEST = -2

NAMES = (
    *("path", "server", "topics", "topicPattern", "columns", "startingOffsets", "endingOffsets", "startingTimestamp"),
    *("maxOffsetsPerTrigger", "minPartitions", "failOnDataLoss", "pushFilters", "checkCrcs"),
)

PerPartition = dict[str, dict[int, Annotated[int, Ge(OFFSET_EARLIEST)]]]
"""Offset by topic and partition; -1 means latest, -2 earliest."""
_PER_PARTITION = JsonForm(PerPartition)
Bound = Literal["earliest", "latest"] | PerPartition


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that was chosen; `servers` are addresses to try in turn."""

    path: str
    """Local path of the stream in its cluster."""
    servers: tuple[str, ...]
    topics: tuple[str, ...] | None = None
    topic_pattern: str | None = None
    columns: tuple[str, ...] = ALL
    starting: Bound | None = None
    """None: earliest for a batch, latest for a stream, as in Spark's Kafka source."""
    ending: Bound = LATEST
    starting_time_ms: int | None = None
    max_offsets_per_trigger: int | None = None
    min_partitions: int = 1
    fail_on_data_loss: bool = True
    push_filters: bool = False
    check_crcs: bool = True

    @classmethod
    def parse(cls, given: Mapping[str, str], variables: Mapping[str, str] | None = None) -> Options:
        """Read Spark's case-insensitive map of options.

        Raises:
            InvalidValue: an option is unknown or missing, or has a value outside its range; the message names it.
            UnknownCluster: the path names a cluster that is not in `clusters.toml`, and there is no `server`.
        """
        values = Values(given, NAMES)
        path, servers = place_of(values, os.environ if variables is None else variables)
        return cls(
            path=path,
            servers=servers,
            topics=_topics(values),
            topic_pattern=_pattern(values),
            columns=check_columns(values.list("columns") or ALL),
            starting=None if values.text("startingOffsets") is None else _bound(values, "startingOffsets"),
            ending=_ending(values),
            starting_time_ms=values.number("startingTimestamp", 0),
            max_offsets_per_trigger=values.number("maxOffsetsPerTrigger", 1),
            min_partitions=values.number("minPartitions", 1) or 1,
            fail_on_data_loss=values.flag("failOnDataLoss", True),
            push_filters=values.flag("pushFilters", False),
            check_crcs=values.flag("checkCrcs", True),
        )

    @property
    def chosen(self) -> str:
        """Digest of what says which topics are read."""
        topics = None if self.topics is None else sorted(set(self.topics))
        return sha256(json.dumps([topics, self.topic_pattern]).encode()).hexdigest()[:16]


def _topics(values: Values) -> tuple[str, ...] | None:
    names = values.list("topics")
    if names is not None and values.text("topicPattern") is not None:
        raise InvalidValue("options topics and topicPattern: give one of them")
    return None if names is None else tuple(check_topic_name(name) for name in names)


def _pattern(values: Values) -> str | None:
    pattern = values.text("topicPattern")
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise InvalidValue(f"option topicPattern = {pattern!r}: {error}") from None
    return pattern


def _ending(values: Values) -> Bound:
    if values.text("endingOffsets") is None:
        return LATEST
    bound = _bound(values, "endingOffsets")
    if bound == EARLIEST or (
        isinstance(bound, dict) and any(OFFSET_EARLIEST in places.values() for places in bound.values())
    ):
        raise InvalidValue("option endingOffsets: earliest would end before it begins; give latest or offsets")
    return bound


def _bound(values: Values, name: str) -> Bound:
    text = values.text(name) or ""
    if text.lower() == EARLIEST:
        return EARLIEST
    if text.lower() == LATEST:
        return LATEST
    try:
        return {check_topic_name(topic): places for topic, places in _PER_PARTITION.read(text).items()}
    except Unreadable:
        example = '{"ship-1": {"0": 23, "1": -2}}'
        raise InvalidValue(
            f"option {name} = {text[:100]!r}: give earliest, latest or offsets such as {example}"
        ) from None
