"""What changes of owner have left behind in a stream, as it is counted."""

from __future__ import annotations

from functools import partial

from tests.cluster.opening import Open

from fairlead.cluster.owner_changes import OwnerChanges, diverged_of, owner_changes, unheard_by
from fairlead.cluster.values import StreamSettings
from fairlead.streamlog.requests.topics import put_topic

OTHER = b"o" * 16


async def test_topics_that_are_ours_and_lack_records_are_pending(open_cluster: Open) -> None:
    """The owner before had three records, of which none came. A topic that never changed its owner is not looked at,
    and one of another's is counted there."""
    cluster = await open_cluster("harbour")
    stream = await cluster.create_stream("/ships", StreamSettings())
    for name, owner in (("anna", stream.id), ("berta", OTHER)):
        topic = await stream.create_topic(name, 1)
        given = topic._replace(owner=owner, epoch=7, version=1, since=((3, ((0, 0),)),))
        await stream.shard_for(name).submit(partial(put_topic, topic=given, origin=OTHER, via=None))
    plain = await stream.create_topic("carla", 1)
    assert owner_changes(stream) == OwnerChanges(1, 0, 0, 0)
    assert [len([*unheard_by(stream, owner)]) for owner in (stream.id, OTHER)] == [1, 1]
    assert diverged_of(stream, plain) == []
