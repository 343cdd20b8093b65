"""Names and paths: what is legal, how they are written, which shard and slice a topic belongs to.

    /ships/log                    a stream of the local cluster
    /mapr/newyork/ships/log       the same path in the cluster newyork (the original's form, leading slash optional)
    newyork:/ships/log            short form of the same
    /ships/log:positions          topic `positions` of the stream /ships/log

A path that comes in as text is parsed once, where it comes in. From there on it is a `StreamPath`, which becomes text
only where it is stored or shown. Within one cluster a stream is known by its local path alone (`StreamPath.path`).

Rules: the pages on MapR Streams, `docs.ezmeral.hpe.com … stream_create`, and Kafka's `Topic.validate`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from itertools import count

from fairlead.model.errors import InvalidName, InvalidValue
from fairlead.model.shown import UNSEEN

SLICES = 16
TOPIC_NAME_LENGTH_MAX = 249
PREFIX_LENGTH_MAX = 100
NAME_SHOWN_MAX = 1000
"""Characters of a name in a row or a frame, legal here or not."""
STREAM_PATH_LENGTH_MAX = 1024
GROUP_ID_BYTES_MAX = 2457
KAFKA_SCHEME = "kafka://"
"""How the name of a Kafka cluster begins, where the path of a stream could stand."""

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")
_CLUSTER = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}\Z")
_SEGMENT = re.compile(f"[^/{UNSEEN}]{{1,255}}\\Z")


@dataclass(frozen=True, slots=True)
class StreamPath:
    """A stream's path, with the cluster it was named in (None: the local one)."""

    path: str
    cluster: str | None = None

    @property
    def kafka(self) -> str | None:
        """The name of the Kafka cluster, if it is one; its path is kafka://name."""
        return self.path.removeprefix(KAFKA_SCHEME) if self.path.startswith(KAFKA_SCHEME) else None

    def __str__(self) -> str:
        return self.path if self.cluster is None else f"/mapr/{self.cluster}{self.path}"


def check_topic_name(name: str) -> str:
    """Return `name` if Kafka would accept it as a topic name.

    Raises:
        InvalidName: it is empty, `.`, `..`, longer than 249, or has characters besides letters, digits, `.`, `_`, `-`.
    """
    if not is_topic_name(name):
        raise InvalidName(
            f"topic name {name!r}: use 1 to {TOPIC_NAME_LENGTH_MAX} of letters, digits, '.', '_' and '-'; "
            "not '.' or '..'"
        )
    return name


def check_text(text: str, what: str) -> str:
    """A text that can be written down and sent: JSON and bytes of a command line can say others.

    Raises:
        InvalidValue: it is none; the message begins with `what`.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidValue(f"{what} is no UTF-8 text") from error
    return text


def is_topic_name(name: str) -> bool:
    """Whether Kafka would accept it as a topic name."""
    return name not in {".", ".."} and _TOPIC.match(name) is not None


def check_prefix(prefix: str) -> str:
    """Return `prefix` if it may stand before the names of topics.

    Raises:
        InvalidName: it is longer than 100, or has characters besides letters, digits, `.`, `_`, `-`.
    """
    if len(prefix) > PREFIX_LENGTH_MAX or (prefix and not _TOPIC.match(prefix)):
        raise InvalidName(f"-prefix {prefix!r}: use at most {PREFIX_LENGTH_MAX} of letters, digits, '.', '_' and '-'")
    return prefix


def prefixed(prefix: str, name: str) -> str:
    """The name that a topic gets where a link with a prefix brings it first. One that is far too long is cut: it is no
    topic's name, and shall be no longer in a note than one that came."""
    return (prefix + name)[:NAME_SHOWN_MAX] if prefix else name


def fitting(name: str, end: str) -> str:
    """The name with that end; one that is too long is cut, and says by a hash what of it is missing."""
    if len(name) + len(end) <= TOPIC_NAME_LENGTH_MAX:
        return name + end
    digest = "-" + sha256(name.encode()).hexdigest()[:12]
    return name[: TOPIC_NAME_LENGTH_MAX - len(digest) - len(end)] + digest + end


def names_like(name: str) -> Iterator[str]:
    """The name and others that begin so, without end: who looks for one that is free takes the first that is."""
    yield fitting(name, "")
    for number in count(1):
        yield fitting(name, f"-{number}")


def check_cluster_name(name: str) -> str:
    """Return `name` if it may name a cluster: letters, digits, `.`, `_`, `-`, at most 100.

    Raises:
        InvalidName: it may not.
    """
    if not _CLUSTER.match(name):
        raise InvalidName(f"cluster name {name!r}: use 1 to 100 of letters, digits, '.', '_' and '-'")
    return name


@lru_cache(1000)
def parse_stream_path(text: str) -> StreamPath:
    """Read any of the three forms of a stream's path. Clients name it with each topic, and few there are.

    Raises:
        InvalidName: it is not absolute or too long, or has an empty or dotted part, or a `:` in the last part.
    """
    cluster: str | None = None
    path = text
    if text.startswith("mapr/"):
        path = "/" + text
    elif not text.startswith("/") and ":/" in text:
        cluster, _, rest = text.partition(":")
        path = rest
        check_cluster_name(cluster)
    if cluster is None and path.startswith("/mapr/"):
        cluster, slash, rest = path[len("/mapr/") :].partition("/")
        if not slash:
            raise InvalidName(f"path {text!r}: a global path is /mapr/<cluster>/<path of the stream>")
        check_cluster_name(cluster)
        path = "/" + rest
    return StreamPath(_check_path(path, text), cluster)


def named_place(text: str) -> str:
    """Where topics are owned, as the person wrote it: a stream's path in any of its forms as its global path, another
    text, such as the name of a cluster, as it is."""
    try:
        return str(parse_stream_path(text))
    except InvalidName:
        return text


def parse_source_path(text: str) -> StreamPath:
    """The path of a stream, or kafka://name of a Kafka cluster.

    Raises:
        InvalidName: it is none of them.
    """
    if not text.startswith(KAFKA_SCHEME):
        return parse_stream_path(text)
    if not _CLUSTER.match(text.removeprefix(KAFKA_SCHEME)):
        raise InvalidName(f"path {text!r}: write kafka://NAME, a name of letters, digits, '.', '_' and '-'")
    return StreamPath(text)


def _check_path(path: str, text: str) -> str:
    if not path.startswith("/"):
        raise InvalidName(f"path {text!r}: a stream's path starts with '/', for example /ships")
    if len(path) > STREAM_PATH_LENGTH_MAX:
        raise InvalidName(f"path {text[:60]!r}…: longer than {STREAM_PATH_LENGTH_MAX} characters")
    parts = path[1:].split("/")
    for part in parts:
        if part in {".", ".."} or not _SEGMENT.match(part):
            raise InvalidName(f"path {text!r}: empty, dotted or unprintable part {part!r}")
    if ":" in parts[-1]:
        raise InvalidName(f"path {text!r}: the last part of a stream's path has no ':'")
    return path


def split_topic(name: str) -> tuple[str | None, str]:
    """Split `<stream path>:<topic>` into both parts; for a bare topic name the stream is None."""
    if not name.startswith("/") and ":" not in name:
        return None, name
    stream, _, topic = name.rpartition(":")
    return stream, topic


@cache
def _crc32c() -> Callable[[bytes], int]:
    """Imported when it is needed: it loads a command line of its own, for which each of our commands would pay."""
    import crc32c

    function: Callable[[bytes], int] = crc32c.crc32c
    return function


def name_hash(topic: str) -> int:
    """crc32c of the topic's name: its lower bits choose the shard, its upper 16 the slice."""
    return _crc32c()(topic.encode())


def shard_of(topic: str, shards: int) -> int:
    """The shard in which a topic of this name is created."""
    return name_hash(topic) % shards


def slice_of(topic: str) -> int:
    """The slice (0 to 15) of a topic, by its name at the source."""
    return (name_hash(topic) >> 16) % SLICES
