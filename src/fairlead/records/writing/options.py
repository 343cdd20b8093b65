"""What a Spark user chose for writing; names are those of Spark's Kafka sink where it has them, and Delta's for `txn…`.
An unknown option is refused."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from fairlead.model.errors import InvalidValue
from fairlead.model.names import check_topic_name
from fairlead.protocol.records import CODECS
from fairlead.records.given import Values, place_of

NAMES: Final = (
    *("path", "server", "kafka.bootstrap.servers", "topic", "includeHeaders", "compression", "stagingLocation"),
    *("deliveryTimeoutMs", "txnAppId", "txnVersion", "checkpointLocation", "queryName"),
)
DELIVERY_TIMEOUT_MS: Final = 120_000
"""As Kafka's `delivery.timeout.ms`."""
_LOCAL: Final = re.compile("file:(?://[^/]*)?(/.*)", re.IGNORECASE | re.DOTALL)
STAGED: Final = "fairlead-staged"
"""Name of the folder in a query's checkpoint."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Everything that was chosen; `servers` are addresses to try in turn."""

    path: str
    """Local path of the stream in its cluster, for rows that name none."""
    servers: tuple[str, ...]
    bootstrap: str | None = None
    """Kafka addresses; None: the cluster is asked."""
    topic: str | None = None
    """Of all records, whatever their rows say."""
    codec: int = 0
    """Kafka's number of the compression."""
    staging: Path | None = None
    """Where tasks leave what they have; of a streaming query None: it has no checkpoint that is a local folder."""
    checkpoint: Path | None = None
    """Of a streaming query, if it is a local folder."""
    delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS
    """How long the cluster may take no record at all."""
    write_id: str | None = None
    """Of writes that have numbers: the user's id of them, with what they write to. The same id for another stream,
    topic or cluster numbers other writes, as Delta's does for another table."""
    version: int | None = None
    """With `write_id`: the number of this write, by which one that is made again adds nothing."""

    @classmethod
    def parse(cls, given: Mapping[str, str], variables: Mapping[str, str] | None = None) -> WriteOptions:
        """Read Spark's case-insensitive map of options.

        Raises:
            InvalidValue: an option is unknown or missing, or has a value outside its range; the message names it.
            UnknownCluster: the path names a cluster that is not in `clusters.toml`, and there is no `server`.
        """
        values = Values(given, NAMES)
        path, servers = place_of(values, os.environ if variables is None else variables)
        topic = values.text("topic")
        if not values.flag("includeHeaders", True):
            raise InvalidValue("option includeHeaders = 'false': a column headers is written; leave it out instead")
        app_id, version = values.text("txnAppId"), values.number("txnVersion", 0)
        if (app_id is None) != (version is None):
            raise InvalidValue("options txnAppId and txnVersion: give both, or neither")
        location = values.text("checkpointLocation")
        checkpoint = None if location is None else local_folder(location)
        staging = _staging(values, checkpoint)
        if app_id is not None and staging is None:
            raise InvalidValue(
                "option stagingLocation is missing: with txnAppId, say in which folder is kept what was written"
            )
        return cls(
            path=path,
            servers=servers,
            bootstrap=values.text("kafka.bootstrap.servers"),
            topic=None if topic is None else check_topic_name(topic),
            codec=_codec(values),
            staging=staging,
            checkpoint=checkpoint,
            delivery_timeout_ms=values.number("deliveryTimeoutMs", 1) or DELIVERY_TIMEOUT_MS,
            write_id=None if app_id is None else _write_id(app_id, values),
            version=version,
        )


def _write_id(app_id: str, values: Values) -> str:
    where = [values.text(name) for name in ("server", "kafka.bootstrap.servers", "path", "topic")]
    return json.dumps([app_id, *where])


def _codec(values: Values) -> int:
    name = (values.text("compression") or "none").lower()
    if name not in CODECS:
        raise InvalidValue(f"option compression = {name!r}: give one of {', '.join(CODECS)}")
    return CODECS.index(name)


def _staging(values: Values, checkpoint: Path | None) -> Path | None:
    text = values.text("stagingLocation")
    if text is not None:
        folder = local_folder(text)
        if folder is None:
            raise InvalidValue(
                f"option stagingLocation = {text!r}: give a folder that all executors see as a local one"
            )
        return folder
    return None if checkpoint is None else checkpoint / STAGED


def local_folder(text: str) -> Path | None:
    """The folder that a path or a URL of the scheme `file` names, as Hadoop reads it: all behind the host is the path.
    None for another scheme."""
    found = _LOCAL.fullmatch(text)
    if found is not None:
        return Path(found[1])
    return None if urlsplit(text).scheme else Path(text).absolute()
