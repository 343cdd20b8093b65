"""Keys of the entries under `meta/`, built and parsed; `docs/formats/cluster-log.md` lists them with their values.

    stream/<id>                                a stream: its path and settings
    gone/<id>                                  a deleted stream, whose objects are to be removed
    listener/<stream id>                       the port on which a stream is exposed
    link/<id>                                  a link whose source is here
    upstream/<stream id>/<source>              a source that a replica stream accepts, by its global path
    upstream/<stream id>/<source>#<link id>    the same for one link alone, until its copy ends
    allowed/<stream id>/<source>               a source that may copy into the stream once
    kafka/<stream id>/<name>                   a Kafka cluster whose topics a replica stream keeps
    level                                      at which level this cluster writes
    job/<id>                                   a command that touches many topics, and how far it is
    worklist/<job id>/<number>                 a batch of its topics

Ids are hex. Each value has the version of its kind as `v`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead.model.errors import BadRequest
from fairlead.model.limits import LEVEL_MAX, LEVEL_MIN
from fairlead.model.names import StreamPath

VERSION: Final = 1
"""Of the value of every kind of entry so far, its field `v`."""

Entries = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KeyedById:
    """A kind of entry with one key for each id."""

    kind: str

    def key(self, id: bytes) -> str:
        """The key of the entry for this id."""
        return f"{self.kind}/{id.hex()}"

    def found(self, entries: Entries) -> Iterator[tuple[bytes, Any]]:
        """Id and value of every entry of this kind, in no particular order."""
        mark = f"{self.kind}/"
        for key, value in entries.items():
            if key.startswith(mark):
                yield bytes.fromhex(key.removeprefix(mark)), value


STREAM: Final = KeyedById("stream")
GONE: Final = KeyedById("gone")
LISTENER: Final = KeyedById("listener")
LINK: Final = KeyedById("link")
JOB: Final = KeyedById("job")
UPSTREAM: Final = "upstream"
ALLOWED: Final = "allowed"
LEVEL: Final = "level"
WORKLIST: Final = "worklist"
KAFKA: Final = "kafka"
KINDS: Final = frozenset(
    {STREAM.kind, GONE.kind, LISTENER.kind, LINK.kind, UPSTREAM, ALLOWED, LEVEL, JOB.kind, WORKLIST, KAFKA}
)


def upstream_key(stream: bytes, source: StreamPath, once_link: bytes | None) -> str:
    """The key of a source that a stream accepts, by its global path."""
    once = "" if once_link is None else f"#{once_link.hex()}"
    return f"{_upstreams_of(stream)}{source}{once}"


def upstreams(entries: Entries, stream: bytes) -> list[tuple[str, Any]]:
    """Key and value of every source that a stream accepts, by path."""
    return _by_path(entries, _upstreams_of(stream))


def allowed_key(stream: bytes, source: StreamPath) -> str:
    """The key of a source that may copy into a stream once, by its global path."""
    return f"{_allowed_of(stream)}{source}"


def allowed(entries: Entries, stream: bytes) -> list[tuple[str, Any]]:
    """Key and value of every source that may copy into a stream once, by path."""
    return _by_path(entries, _allowed_of(stream))


def kafka_key(stream: bytes, name: str) -> str:
    """The key of a Kafka cluster whose topics a stream keeps, by the name that it has here."""
    return f"{_kafka_of(stream)}{name}"


def kafka_clusters(entries: Entries, stream: bytes) -> list[tuple[str, Any]]:
    """Key and value of every Kafka cluster whose topics a stream keeps, by name."""
    return _by_path(entries, _kafka_of(stream))


def worklist_key(job: bytes, number: int) -> str:
    """The key of a batch of a job's topics."""
    return f"{_worklists_of(job)}{number}"


def worklists(entries: Entries, job: bytes) -> list[str]:
    """The keys of all batches of a job's topics."""
    return [key for key in entries if key.startswith(_worklists_of(job))]


def with_worklists(entries: Entries) -> set[bytes]:
    """The ids of the jobs of which there are batches of topics."""
    mark = f"{WORKLIST}/"
    return {bytes.fromhex(key.removeprefix(mark).split("/")[0]) for key in entries if key.startswith(mark)}


def _by_path(entries: Entries, mark: str) -> list[tuple[str, Any]]:
    return sorted((each for each in entries.items() if each[0].startswith(mark)), key=lambda each: each[0])


def _upstreams_of(stream: bytes) -> str:
    return f"{UPSTREAM}/{stream.hex()}/"


def _kafka_of(stream: bytes) -> str:
    return f"{KAFKA}/{stream.hex()}/"


def _worklists_of(job: bytes) -> str:
    return f"{WORKLIST}/{job.hex()}/"


def _allowed_of(stream: bytes) -> str:
    return f"{ALLOWED}/{stream.hex()}/"


def check_versions(entries: Entries) -> None:
    """Refuse entries of a kind that is known in a version that is not: what they mean is not guessed.

    Raises:
        BadRequest: the message names the key and both versions.
    """
    for key, value in entries.items():
        if key.partition("/")[0] in KINDS:
            _check_version(key, value)


def check_level(entries: Entries) -> None:
    """Refuse a cluster that is written at a level at which this program cannot write. One without a level is new.

    Raises:
        BadRequest: the message names the level and those of this program.
    """
    level = entries.get(LEVEL, {}).get("level", LEVEL_MAX)
    if not isinstance(level, int) or not LEVEL_MIN <= level <= LEVEL_MAX:
        known = f"level {LEVEL_MIN}" if LEVEL_MIN == LEVEL_MAX else f"levels {LEVEL_MIN} to {LEVEL_MAX}"
        raise BadRequest(
            f"meta/: this cluster is written at level {level}; this program knows {known}. Start it with the program "
            "that wrote it, or a newer one"
        )


def _check_version(key: str, value: Any) -> None:
    version = value.get("v") if isinstance(value, dict) else None
    if version != VERSION:
        raise BadRequest(f"meta/: entry {key} has version {version}; this program knows version {VERSION}")
