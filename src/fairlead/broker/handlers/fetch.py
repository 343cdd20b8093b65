"""Fetch: batches from an offset on, as they were produced, waiting for more if there are too few.

The high watermark is the announced end: what a consumer sees is durable. Batches at the tail come from memory; what is
only on disk is read by a thread, all partitions of the request at once, so that nobody else waits. An answer holds at
most `max_bytes`, or one batch if that alone is larger. No fetch sessions are kept (session id 0, KIP-227).
"""

from __future__ import annotations

import asyncio

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields, Packed
from fairlead.broker.fetch_parts import Reading
from fairlead.broker.pacing import Pace
from fairlead.broker.poll import Poll
from fairlead.protocol.fetch import FetchAnswer, read_request, write_response

API_KEY = 1
RAW = True


async def handle(ctx: RequestContext, body: memoryview) -> AnswerFields:
    """Read; while there is too little, wait for partitions to move, as long as the client has patience."""
    request = read_request(body, ctx.version)
    if request.session_id != 0:
        return Packed(write_response([], ctx.version, error=ErrorCode.fetch_session_id_not_found))
    deadline = asyncio.get_running_loop().time() + max(0, request.max_wait_ms) / 1000
    reading = Reading(ctx.readers, min(request.max_bytes, ctx.settings.fetch_bytes_max))
    poll = Poll(ctx.connection.fetches, reading, (ctx.version, request.isolation))
    await poll.read_all(ctx.listener, request.topics)
    while not reading.enough(request.min_bytes) and await poll.wait(deadline):
        await poll.read_moved()
    ctx.traffic.fetched_bytes += reading.size_bytes
    answer = FetchAnswer(poll.topics, ctx.version, request.isolation)
    pace = Pace()
    for topic in poll.answers():
        answer.add(topic)
        await pace.turn()
    poll.settle()
    return Packed(answer.finish())
