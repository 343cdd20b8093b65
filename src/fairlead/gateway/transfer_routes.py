"""HTTP of the gateway for a source that wants to hand topics over: how do they stand here? Changes nothing.

    POST /gateway/transfer    TransferRequest → TransferAnswer

An error is the envelope of the admin interface.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.jobs import BATCH
from fairlead.cluster.stream import Stream
from fairlead.gateway.apply.agreement import admission, global_path, upstream_of
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.model.errors import InvalidValue, NotAllowed
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.messages import body_from_json, check_version, to_json
from fairlead.wire.neighbours import HeldTopic, TransferAnswer, TransferRequest

router = APIRouter()


@router.post("/gateway/transfer", include_in_schema=False)
async def transfer(request: Request) -> Response:
    """Could these topics be handed over to a stream here?"""
    cluster: Cluster = request.app.state.cluster
    body = body_from_json(await request.body(), TransferRequest)
    answer = answer_transfer(cluster, request.app.state.links.running, body)
    return Response(to_json(answer), media_type="application/json")


def answer_transfer(cluster: Cluster, links: RunningLinks, request: TransferRequest) -> TransferAnswer:
    """How topics of a source stand in their replica here.

    Raises:
        InvalidValue, UnknownStream, NotAgreed.
        NotAllowed: the source is another company's, which gives us no topics.
    """
    contact = request.contact
    check_version(contact.protocol)
    if len(request.incarnations) > BATCH:
        raise InvalidValue(f"{len(request.incarnations)} topics in one question: {BATCH} are allowed")
    stream = cluster.stream(contact.path)
    upstream = upstream_of(cluster, stream, contact.source, contact.link)
    admitted = admission(upstream, contact.source.stream, cluster.settings, len(stream.shards))
    if not admitted.speaks_for(contact.source.stream, stream.id):
        here = cluster.global_path(stream.path)
        raise NotAllowed(
            f"{upstream.path} is a partner of {here}, so it hands nothing over; to allow it run there: "
            f"fairlead stream upstream edit -path {here} -upstream {upstream.path} -peer own"
        )
    conflicts = {
        note.behind.incarnation: note.behind.reason
        for shard in stream.shards
        for note in shard.state.notes(contact.link).values()
        if note.behind.conflict
    }
    topics = tuple(_held(stream, each, conflicts.get(each, "")) for each in request.incarnations)
    refusals = (shard.refuses_records for shard in stream.shards)
    refuses = next((str(refusal) for refusal in refusals if refusal is not None), "")
    return TransferAnswer(cluster.name, stream.id, _way_back(cluster, links, stream, contact.source), topics, refuses)


def _held(stream: Stream, incarnation: bytes, conflict: str) -> HeldTopic:
    found = stream.by_incarnation(incarnation)
    if found is None:
        return HeldTopic(held=False, conflict=conflict)
    shard, topic = found
    ends = (shard.state.partition(topic.number, each).end for each in range(topic.partitions))
    return HeldTopic(held=True, ends=sum(ends), conflict=conflict, epoch=topic.epoch)


def _way_back(cluster: Cluster, links: RunningLinks, stream: Stream, source: StreamPlace) -> str:
    """What is wrong with the link by which records that are written here would reach the source."""
    here, there = cluster.global_path(stream.path), global_path(source)
    back = [each for each in cluster.links.standing(stream.id) if each.replica_path == there]
    for record in (each for each in back if each.replica_stream in {None, source.stream}):
        running = links.get(record.id)
        if running is not None and running.state.ready:
            return ""
        if record.paused:
            return f"the link back is paused; run: fairlead stream replica resume -path {here} -replica {there}"
        why = "" if running is None or running.error is None else f": {running.error}"
        return f"the link from {here} back to {there} is not ready{why}"
    return f"there is no link back; run: fairlead stream replica add -path {here} -replica {there}"
