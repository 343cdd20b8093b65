"""Conflicts of a topic for `stream topic info`: on which link it is set aside, or another one waits with its name, and
why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.gateway.links.running.running_link import RunningLink
from fairlead.model.names import KAFKA_SCHEME
from fairlead.streamlog.state.effects import Note
from fairlead.streamlog.values import CONFLICT, NAME_HELD, Topic


def conflicts_of(cluster: Cluster, stream: Stream, links: Iterable[RunningLink], topic: Topic) -> dict[int, list[str]]:
    """By partition. `links`: those of the stream, by which its replicas say what they have set aside. Blocking: of a
    shard that lacks much, all notes are looked at."""
    found: dict[int, list[str]] = {partition: [] for partition in range(topic.partitions)}
    for partition, text in (*_set_aside(cluster, stream, topic), *_set_aside_there(stream, links, topic)):
        if partition in found:
            found[partition].append(text)
    waiting = [*dict.fromkeys(_waiting(cluster, stream, topic))]
    return {partition: [*texts, *waiting] for partition, texts in found.items()}


def _set_aside(cluster: Cluster, stream: Stream, topic: Topic) -> Iterator[tuple[int, str]]:
    """Partitions of the topic that are set aside here."""
    state = stream.shard_for(topic.name).state
    for key in list(state.note_keys(topic.incarnation)):
        note = state.note(key)
        if note is not None and note.behind.conflict:
            yield key[2], f"from {_source(cluster, stream, key[0])}: {_why(note.behind.reason)}"


def _waiting(cluster: Cluster, stream: Stream, topic: Topic) -> Iterator[str]:
    """Topics that wait here for the name of this one."""
    state = stream.shard_for(topic.name).state
    notes: list[tuple[tuple[bytes, bytes, int], Note]] = list(state.all_notes().items()) if state.has_notes else []
    for (link, _, _), note in notes:
        made = note.create
        if made is not None and note.behind.reason == NAME_HELD + topic.name:
            owner = made.owner_at or f"the stream with id {made.owner.hex()}"
            yield f"from {_source(cluster, stream, link)}: another topic of this name waits, owned by {owner}"


def _set_aside_there(stream: Stream, links: Iterable[RunningLink], topic: Topic) -> Iterator[tuple[int, str]]:
    """Partitions that replicas have set aside, as they last said."""
    for link in links:
        for each in () if link.answer is None else link.answer.behind:
            if each.incarnation == topic.incarnation and each.reason.startswith(CONFLICT):
                yield each.partition, f"at {link.record.replica_path}: {_why(each.reason)}"
        if any(each.incarnation == topic.incarnation for each in link.deleted_there(stream)):
            yield 0, f"at {link.record.replica_path}: deleted there"


def _why(reason: str) -> str:
    return reason.removeprefix(f"{CONFLICT}: ")


def _source(cluster: Cluster, stream: Stream, link: bytes) -> str:
    """The upstream whose link it is, as far as that is known: links say at contact whose they are."""
    kafka = cluster.kafka.by_link(link)
    if kafka is not None:
        return f"{KAFKA_SCHEME}{kafka.name}"
    source, upstreams = stream.heard.source_of(link), cluster.links.standing_upstreams(stream.id)
    if source is None and len(upstreams) == 1:
        return str(upstreams[0].path)
    path = "" if source is None else cluster.links.path_of(stream.id, source)
    return path or f"the link {link.hex()}"
