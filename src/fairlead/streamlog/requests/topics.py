"""Topics are made, changed and deleted by rows, and only by their owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from fairlead.model.errors import AlreadyExists, InvalidValue, NotAllowed, NotOwner, UnknownTopic
from fairlead.model.limits import PARTITIONS_PER_TOPIC_MAX
from fairlead.model.names import check_topic_name
from fairlead.streamlog.payloads import BehindPayload, TopicDeletedPayload, TopicPayload
from fairlead.streamlog.requests.rollback import check_not_rolled_back
from fairlead.streamlog.rows import NO_COMMIT, Kind
from fairlead.streamlog.state.effects import Note, NoteKey, payload_of, payload_of_note, topic_of
from fairlead.streamlog.values import DELETED_HERE, HARMED, Topic
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.news import OwnerChanged, Resolved

RENAMES: Final = "renames"
"""Field of the TOPIC row of a topic that its owners gave another name: how often. Few topics have it, so it is kept
with the fields that only some programs know."""

ConfigChange = Callable[[Mapping[str, str]], Mapping[str, str | None]]
"""A topic's own settings → all that it is to have; those whose value is None are unset."""


def create_topic(
    draft: Draft,
    name: str,
    partitions: int = 1,
    configs: Mapping[str, str] | None = None,
    *,
    owner_at: str = "",
    incarnation: bytes | None = None,
    partitions_max: Callable[[int], int] | None = None,
    ext: Mapping[str, Any] | None = None,
) -> Topic:
    """Make a topic that this stream owns, which stands at the global path `owner_at`. `incarnation` is 16 random bytes,
    made by the draft if not given; `partitions_max` says how many partitions this log may have after a commit; `ext`
    are fields of its TOPIC row that few topics have.

    Raises:
        NotAllowed: it would have more.
        InvalidName: the name breaks Kafka's rule for topic names.
        InvalidValue: the number of partitions is not from 1 to 4,096.
        AlreadyExists: a topic has that name.
    """
    check_topic_name(name)
    _check_partitions(partitions)
    if draft.state.by_name(name) is not None:
        raise AlreadyExists(f"topic {name} exists")
    _check_room(draft, partitions, partitions_max)
    topic = Topic(
        draft.state.next_number(name),
        name,
        incarnation or draft.new_id(),
        partitions,
        draft.stream_id,
        configs=dict(configs or {}),
        home=name,
        owner_at=owner_at,
        ext=dict(ext or {}),
    )
    put_topic(draft, topic, draft.stream_id, None)
    return topic


def put_topic(draft: Draft, topic: Topic, origin: bytes | None, via: bytes | None, via_commit: int = NO_COMMIT) -> None:
    """Write the TOPIC row that makes `topic` what it is."""
    before = draft.state.topic(topic.number) if topic.epoch else None
    if before is not None and before.owner != topic.owner:
        draft.news.append(OwnerChanged(topic.name, before.owner, topic.owner, topic.owner_at, topic.epoch))
    draft.add_control(Kind.TOPIC, payload_of(topic), number=topic.number, origin=origin, via=via, via_commit=via_commit)


def delete_topic(draft: Draft, name: str, *, incarnation: bytes | None = None) -> Topic:
    """Delete a topic with its records and cursors; returns it as it was. `incarnation` as for `owned_topic`.

    Raises:
        UnknownTopic
        NotOwner: it is owned elsewhere; delete it there.
    """
    topic = owned_topic(draft, name, incarnation)
    bury(draft, topic, draft.stream_id, None)
    release_waiting(draft, name)
    return topic


def bury(
    draft: Draft,
    topic: Topic,
    origin: bytes | None,
    via: bytes | None,
    via_commit: int = NO_COMMIT,
    *,
    told_by: bytes | None = None,
    yielded: bool = False,
    ext: Mapping[str, Any] | None = None,
) -> None:
    """Write the tombstone of a topic, or that it made room for another one. A deletion ends all notes on it but those
    that `may_hide_an_owner`, of other links than `told_by`, which told of the deletion behind the rows that it had
    damaged."""
    end = draft.state.partition(topic.number, 0).end
    hiding = [
        replace(payload_of_note(key[0], note), end=max(end, note.behind.end))
        for key, note in draft.state.notes_of(topic.incarnation).items()
        if key[0] != told_by and may_hide_an_owner(note)
    ]
    payload = TopicDeletedPayload(topic.name, topic.incarnation, yielded, topic.epoch, ext or {})
    draft.add_control(Kind.TOPIC_DELETED, payload, number=topic.number, origin=origin, via=via, via_commit=via_commit)
    for again in hiding:
        draft.add_control(Kind.BEHIND, again)


def may_hide_an_owner(note: Note) -> bool:
    """Whether a row of the topic itself may have come damaged: one that names a later owner than the one that deletes
    the topic, with whom it lives again."""
    return note.behind.partition == 0 and note.behind.reason == HARMED


def release_waiting(draft: Draft, name: str) -> None:
    """A name has become free: make the incarnation that waited for it on some link, to be brought from its start."""
    waiting = waiting_for(draft, name)
    if waiting:
        _make_waiting(draft, name, waiting)


def waiting_for(draft: Draft, name: str) -> list[tuple[NoteKey, Note]]:
    """The notes of incarnations that wait for a name."""
    return [(key, note) for key, note in draft.state.every_note().items() if waits_for(note, name)]


def waits_for(note: Note, name: str) -> bool:
    """Whether the topic waits on that link for a name, and would get this one."""
    return note.create is not None and note.create.name == name and waits(note)


def rename_topic(draft: Draft, name: str, to: str) -> Topic:
    """Give a topic of this stream another name, here and, by its row, wherever it is; returns it as it is then. What
    waited for the name that it had is made.

    Raises:
        UnknownTopic, NotOwner
        NotAllowed: the log was rolled back.
        InvalidName: the new name breaks Kafka's rule for topic names.
        AlreadyExists: a topic has that name.
    """
    topic = owned_topic(draft, name)
    check_topic_name(to)
    if draft.state.by_name(to) is not None:
        raise AlreadyExists(f"topic {to} exists")
    ext = {**topic.ext, RENAMES: renames_of(topic) + 1}
    renamed = _change(draft, topic._replace(name=to, home=to, ext=ext))
    release_waiting(draft, name)
    return renamed


def renames_of(topic: Topic | TopicPayload) -> int:
    """How often its owners gave a topic another name."""
    count = topic.ext.get(RENAMES)
    return count if isinstance(count, int) else 0


def take_as(draft: Draft, name: str, to: str) -> Topic:
    """Make the topic that waits for a name which another one holds here, under a name of its own; the link brings it
    from its start. Of several it is the one that has waited longest. Other sites know it by the name that they have.

    Raises:
        InvalidValue: no topic waits for that name.
        InvalidName: the new name breaks Kafka's rule for topic names.
        AlreadyExists: a topic has that name.
    """
    check_topic_name(to)
    waiting = waiting_for(draft, name)
    if not waiting:
        raise InvalidValue(
            f"no topic waits here for the name {name}; `fairlead stream replica list` at its source says"
        )
    if draft.state.by_name(to) is not None:
        raise AlreadyExists(f"topic {to} exists")
    (_, incarnation, _), _ = min(waiting, key=lambda each: each[1].behind.noted_at)
    return _make_waiting(draft, to, [(key, note) for key, note in waiting if key[1] == incarnation])


def take_again(draft: Draft, name: str) -> Topic:
    """Take an incarnation again that was deleted here and lives at its source, which brings it from its start. Another
    topic that holds the name is deleted.

    Raises:
        InvalidValue: no topic of that name was set aside so.
        NotAllowed: a topic of this very stream has the name.
    """
    deleted = [
        (key, note)
        for key, note in draft.state.every_note().items()
        if note.behind.reason == DELETED_HERE and note.behind.topic == name and note.create is not None
    ]
    if not deleted:
        raise InvalidValue(
            f"no topic {name} that was deleted here came again; `fairlead stream replica list` names them"
        )
    holder = draft.state.by_name(name)
    if holder is not None:
        if holder.owner == draft.stream_id:
            raise NotAllowed(f"topic {name} is this stream's own; delete it first")
        bury(draft, holder, draft.stream_id, None)
    newest = max(note.behind.noted_at for _, note in deleted)
    last = next(key[1] for key, note in deleted if note.behind.noted_at == newest)
    return _make_waiting(draft, name, [(key, note) for key, note in deleted if key[1] == last])


def _make_waiting(draft: Draft, name: str, waiting: list[tuple[NoteKey, Note]]) -> Topic:
    """Make the first of the incarnations that these notes name, and have its partitions brought."""
    (_, incarnation, _), first = waiting[0]
    create = first.create
    assert create is not None
    topic = draft.state.by_incarnation(incarnation)
    if topic is None:
        topic = topic_of(draft.state.next_number(name), create)._replace(name=name)
        # Nobody knows any more who brought the row; it is not ours, so that `-forward own` does not send it on.
        put_topic(draft, topic, create.owner, None if create.owner == draft.stream_id else create.owner)
    for key, note in waiting:
        if key[1] == incarnation:
            _resolve(draft, topic, key, note)
    resolve_others(draft, topic)
    return topic


def resolve_others(draft: Draft, topic: Topic, brings: bytes | None = None) -> None:
    """The topic has just been made: what links have dropped while it waited for a name, each for its own, or was
    deleted here, is to be brought. The link that `brings` it does so without that."""
    for key, note in draft.state.notes_of(topic.incarnation).items():
        if key[0] != brings and note.create is not None:
            _resolve(draft, topic, key, note)


def waits(note: Note) -> bool:
    """Whether the topic waits on that link for a name."""
    return note.create is not None and note.behind.reason != DELETED_HERE


def _resolve(draft: Draft, topic: Topic, key: NoteKey, note: Note) -> None:
    link, incarnation, partition = key
    again = BehindPayload(link, topic.name, incarnation, partition, 0, "gap", note.behind.noted_at)
    draft.add_control(Kind.BEHIND, again)
    draft.news.append(Resolved(topic.name, link))


def set_partitions(
    draft: Draft,
    name: str,
    partitions: int,
    *,
    partitions_max: Callable[[int], int] | None = None,
    incarnation: bytes | None = None,
) -> Topic:
    """Give a topic more partitions; returns it as it is then. `partitions_max` as for `create_topic`, `incarnation` as
    for `owned_topic`.

    Raises:
        NotAllowed: the log would have more, or was rolled back.
        UnknownTopic, NotOwner
        InvalidValue: the topic has as many or more, or these are too many.
    """
    topic = owned_topic(draft, name, incarnation)
    _check_partitions(partitions)
    if partitions <= topic.partitions:
        raise InvalidValue(f"topic {name} has {topic.partitions} partitions; give a larger number than that")
    _check_room(draft, partitions - topic.partitions, partitions_max)
    return _change(draft, topic._replace(partitions=partitions))


def _check_room(draft: Draft, more: int, partitions_max: Callable[[int], int] | None) -> None:
    if partitions_max is not None and draft.state.partitions_total + more > partitions_max(draft.commit):
        raise NotAllowed(
            f"{more} more partitions: the stream or the cluster would have more than the settings "
            "partitions_per_stream_max and partitions_max allow; delete topics or raise them"
        )


def set_configs(draft: Draft, name: str, changes: Mapping[str, str | None]) -> Topic:
    """Set topic settings, or unset those whose value is None; writes nothing if nothing changes.

    Raises:
        UnknownTopic, NotOwner
        NotAllowed: the log was rolled back.
    """
    return change_configs(draft, name, lambda own: {**own, **changes})


def change_configs(draft: Draft, name: str, change: ConfigChange) -> Topic:
    """Give a topic the settings that `change` makes of its own; writes nothing if nothing changes.

    Raises:
        UnknownTopic, NotOwner, and what `change` raises.
        NotAllowed: the log was rolled back.
    """
    topic = owned_topic(draft, name)
    configs = {key: value for key, value in change(topic.configs).items() if value is not None}
    if configs == dict(topic.configs):
        return topic
    return _change(draft, topic._replace(configs=configs))


def owned_topic(draft: Draft, name: str, incarnation: bytes | None = None) -> Topic:
    """The topic of that name, which this stream owns. With `incarnation` another one, which has got the name since the
    caller looked, is not it.

    Raises:
        UnknownTopic, NotOwner
    """
    topic = named_or_numbered(draft, name)
    if incarnation is not None and topic.incarnation != incarnation:
        raise UnknownTopic(f"topic {name} was deleted meanwhile, and made again")
    owned(draft, topic)
    return topic


def named_or_numbered(draft: Draft, topic: str | int) -> Topic:
    """The topic of that name or number. Raises: UnknownTopic."""
    found = draft.state.topic(topic) if isinstance(topic, int) else draft.state.by_name(topic)
    if found is None:
        raise UnknownTopic(f"topic {topic} does not exist")
    return found


def owned(draft: Draft, topic: Topic) -> None:
    """Check that this stream owns the topic. Raises: NotOwner."""
    if topic.owner != draft.stream_id:
        raise NotOwner(topic.name, topic.owner_at or f"the stream with id {topic.owner.hex()}")


def _change(draft: Draft, topic: Topic) -> Topic:
    """Raises: NotAllowed: the log was rolled back, and may have given out that version of the topic before."""
    check_not_rolled_back(draft)
    newer = topic._replace(version=topic.version + 1)
    put_topic(draft, newer, draft.stream_id, None)
    return newer


def _check_partitions(partitions: int) -> None:
    if not 1 <= partitions <= PARTITIONS_PER_TOPIC_MAX:
        raise InvalidValue(f"{partitions} partitions: from 1 to {PARTITIONS_PER_TOPIC_MAX:,} are possible")
