"""The names that a listener shows, and the streams and topics behind them.

The main listener knows every stream: `<stream path>:<topic>`, and bare names for topics of the default stream. A list
of all topics has those with bare names, or with `listed_streams` those of every stream. A stream listener shows one
stream as a whole Kafka cluster, with plain names only, for clients that refuse `/` and `:`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from fairlead.broker.topics.packed_topics import PackedTopics
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.reaching import not_owner, with_way
from fairlead.cluster.stream import Stream
from fairlead.model.errors import InvalidName, NotOwner, UnknownStream, UnknownTopic
from fairlead.model.names import check_topic_name, parse_stream_path, split_topic
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.shard import Shard

_IDS_REMEMBERED_MAX = 200_000
"""Ids whose stream is looked up at once; more are found by asking each stream."""


class Found(NamedTuple):
    """A topic that exists, and where."""

    stream: Stream
    shard: Shard
    topic: Topic


class ListenerView:
    """One Kafka listener's view of the cluster: all streams, or only one."""

    def __init__(self, cluster: Cluster, stream: str | None = None) -> None:
        self.cluster = cluster
        self.stream_path = stream
        """Path of the one stream that is shown; None on the main listener."""
        self.packed = PackedTopics()
        self.measuring = asyncio.Lock()
        """Held while sizes are counted."""
        self._stream_of_id: dict[bytes, Stream] = {}

    @property
    def home(self) -> Stream:
        """The stream whose topics have bare names.

        Raises:
            UnknownStream: it was deleted.
        """
        return self.cluster.stream(self._home_path)

    @property
    def _home_path(self) -> str:
        return self.stream_path or self.cluster.default_stream

    @property
    def namespace(self) -> str:
        """Group membership is counted per listener, under this name; empty for the main one."""
        return self.stream_path or ""

    def listed(self) -> list[Stream]:
        """The streams whose topics a list of all topics has: the one with bare names first, unless it was deleted."""
        if self.stream_path is None and self.cluster.settings.listed_streams == "all":
            return sorted(self.cluster.streams(), key=lambda stream: (stream.path != self._home_path, stream.path))
        try:
            return [self.home]
        except UnknownStream:
            return []

    def listed_names(self) -> Iterator[str]:
        """The names of all topics that a list has; those that come or go meanwhile may be missed."""
        for stream in self.listed():
            prefix = self.prefix_of(stream)
            for name in stream.topic_names():
                yield prefix + name

    def streams(self) -> list[Stream]:
        """Every stream that can be named here."""
        return self.cluster.streams() if self.stream_path is None else [self.home]

    def resolve(self, name: str) -> tuple[Stream, str]:
        """The stream and the plain name of a topic that may or may not exist.

        Raises:
            InvalidName: the name breaks its rule, or names a stream on a stream listener, or another cluster.
            UnknownStream: its stream does not exist.
        """
        stream, topic = self._parted(name)
        return stream, check_topic_name(topic)

    def _parted(self, name: str) -> tuple[Stream, str]:
        """The same, whatever the topic is called."""
        path, topic = (None, name) if self.stream_path is not None else split_topic(name)
        return self.home if path is None else self._stream(path, name), topic

    def _stream(self, path: str, name: str) -> Stream:
        found = parse_stream_path(path)
        if found.cluster is not None and found.cluster != self.cluster.name:
            raise InvalidName(f"topic {name}: this is cluster {self.cluster.name}, not {found.cluster}")
        return self.cluster.stream(found.path)

    def find(self, name: str) -> Found:
        """The topic that a client calls `name`.

        Raises:
            InvalidName, UnknownStream, UnknownTopic.
        """
        stream, topic = self._parted(name)
        found = stream.find_topic(topic)
        if found is None:  # only then its name can break the rule
            found = stream.topic(check_topic_name(topic))
        return Found(stream, *found)

    def find_id(self, topic_id: bytes) -> Found:
        """The topic with this Kafka id, if an answer of this process has named it.

        Raises:
            UnknownTopic: ask for metadata again.
        """
        stream = self._stream_of_id.get(topic_id)
        found = stream.topic_by_id(topic_id) if stream is not None else None
        if stream is not None and found is not None and not found[0].closed:
            return Found(stream, *found)
        for stream in self.streams():
            found = stream.topic_by_id(topic_id)
            if found is not None:
                if len(self._stream_of_id) >= _IDS_REMEMBERED_MAX:
                    self._stream_of_id.clear()
                self._stream_of_id[topic_id] = stream
                return Found(stream, *found)
        raise UnknownTopic(f"no topic has the id {topic_id.hex()}")

    def name_of(self, stream: Stream, topic: str) -> str:
        """How a client of this listener may call a topic of that stream."""
        return self.prefix_of(stream) + topic

    def prefix_of(self, stream: Stream) -> str:
        """What stands before the plain names of that stream's topics here."""
        return "" if stream.path == self._home_path else f"{stream.path}:"

    def not_owner(self, stream: Stream, topic: Topic) -> NotOwner:
        """The refusal of what only the owner may do, naming it by its path and how to reach it."""
        return not_owner(self.cluster, stream, topic, self.name_of(stream, topic.name))

    def owner_refused(self, stream: Stream, refusal: NotOwner) -> NotOwner:
        """The same of what a commit has refused: the topic had another owner than when the request was looked at."""
        return with_way(self.cluster, self.name_of(stream, refusal.topic), refusal.owner)
