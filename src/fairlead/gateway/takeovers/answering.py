"""HTTP of the gateway for a neighbour that wants to take topics over: how do they stand here? Changes nothing.

    POST /gateway/standing    StandingRequest → StandingAnswer

An error is the envelope of the admin interface.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fastapi import APIRouter, Request, Response

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.jobs import BATCH
from fairlead.gateway.pulling.neighbours import may_have
from fairlead.model.errors import InvalidValue
from fairlead.streamlog.state.effects import payload_of
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.shard import Shard
from fairlead.wire.messages import body_from_json, check_protocol, to_json
from fairlead.wire.neighbours import PartitionAt, StandingAnswer, StandingRequest, StandingTopic

router = APIRouter()

PARTITIONS_MAX: Final = 10_000
"""In one answer, unless a single topic has more; the asker asks for the others again."""


@router.post("/gateway/standing", include_in_schema=False)
async def standing(request: Request) -> Response:
    """How do these topics stand here?"""
    cluster: Cluster = request.app.state.cluster
    body = await request.body()
    check_protocol(body)
    answer = answer_standing(cluster, body_from_json(body, StandingRequest))
    return Response(to_json(answer), media_type="application/json")


def answer_standing(cluster: Cluster, request: StandingRequest) -> StandingAnswer:
    """How topics that a neighbour has too stand here.

    Raises:
        InvalidValue, UnknownStream. NotAgreed: the asker is no neighbour.
    """
    if len(request.incarnations) > BATCH:
        raise InvalidValue(f"{len(request.incarnations)} topics in one question: {BATCH} are allowed")
    stream = cluster.stream(request.path)
    share = may_have(cluster, stream, request.asker)
    topics, asked, partitions = list[StandingTopic](), 0, 0
    for incarnation in request.incarnations:
        found = stream.by_incarnation(incarnation)
        if found is not None and share.has(found[1]):
            partitions += found[1].partitions
            if topics and partitions > PARTITIONS_MAX:
                break
            topics.append(_standing(*found))
        asked += 1
    return StandingAnswer(cluster.name, stream.id, asked, tuple(topics))


def _standing(shard: Shard, topic: Topic) -> StandingTopic:
    states = (shard.state.partition(topic.number, each) for each in range(topic.partitions))
    payload = replace(payload_of(topic), ext=dict(topic.ext))
    return StandingTopic(payload, tuple(PartitionAt(state.end, state.history) for state in states))
