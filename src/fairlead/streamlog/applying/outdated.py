"""Topics of which a source has sent rows of an owner of before: it may not know the present one, and is told.

A site that only sends hears of an owner in no other way, and goes on as one: it acknowledges what nobody takes, and
what it wrote is kept nowhere else. Its rows are passed over by a position that never goes back. So that they came is
noted for the topic in the commit of that position, and stands until the source says that it has heard: an answer may be
lost, and either of the two may be started again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fairlead.streamlog.payloads import StatePayload
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft


def note_outdated(draft: Draft, source: bytes, numbers: Iterable[int]) -> None:
    """Note that the stream `source` may not know the present owners of these topics."""
    for number in sorted(numbers):
        topic = draft.state.topic(number)
        if topic is not None and draft.state.topic_state(number, _key(source)) != topic.epoch:
            draft.add_control(Kind.STATE, StatePayload(_key(source), topic.epoch), number=number)


def outdated_at(state: ShardState, source: bytes) -> Iterator[Topic]:
    """The topics whose present owner the source is to be told, as long as it does not say that it knows."""
    for number in state.topic_states.numbers(_key(source)):
        topic = state.topic(number)
        if topic is not None:
            yield topic


def note_heard(draft: Draft, source: bytes, epochs: Iterable[tuple[bytes, int]]) -> None:
    """A request: the source has heard of the owners of these topics, each given by its incarnation and the topic epoch
    that it was told."""
    for incarnation, epoch in epochs:
        topic = draft.state.by_incarnation(incarnation)
        noted = None if topic is None else draft.state.topic_state(topic.number, _key(source))
        if topic is not None and noted is not None and noted <= epoch:
            draft.add_control(Kind.STATE, StatePayload(_key(source), None), number=topic.number)


def _key(source: bytes) -> str:
    return f"outdated {source.hex()}"
