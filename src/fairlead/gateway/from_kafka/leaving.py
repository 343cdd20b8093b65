"""Whether topics of a Kafka cluster may be taken over: while it answers, only once all that it has is here."""

from __future__ import annotations

from typing import Final

from fairlead.cluster.stream import Stream
from fairlead.gateway.from_kafka.upstreams import RunningUpstreams
from fairlead.streamlog.requests.diverged import parent_of
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.shard import Shard

_HINT: Final = "(-force takes it over all the same)"


async def obstacle(upstreams: RunningUpstreams, stream: Stream, shard: Shard, topic: Topic) -> str:
    """Why a topic of a Kafka cluster stays as it is; empty if it may be taken over. A cluster that does not answer is
    taken for lost."""
    if parent_of(topic) is not None:
        return ""  # of what Kafka has no more nothing is still to come
    running = next((each for each in upstreams.of(stream.id) if each.record.source == topic.owner), None)
    if running is None:
        return ""
    if running.record.paused:
        return f"{running.record.path} is paused, so nobody knows what is still to come: resume it {_HINT}"
    notes = (shard.state.note((running.record.link, topic.incarnation, each)) for each in range(topic.partitions))
    conflict = next((note.behind for note in notes if note is not None and note.behind.conflict), None)
    if conflict is not None:
        return f"partition {conflict.partition} is set aside ({conflict.reason}) {_HINT}"
    answers = await running.look_again()
    why = running.lacking(topic.incarnation)
    open_in = [each for each in range(topic.partitions) if shard.state.transactions(topic.number, each).open]
    if answers and open_in and not why:
        why = f"the end of a committed transaction in partition {open_in[0]} has not come yet"
    return f"{why}; stop its producers and wait {_HINT}" if why else ""
