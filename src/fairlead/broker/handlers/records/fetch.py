"""Fetch: batches from an offset on, as they were produced, waiting for more if there are too few.

The high watermark is the announced end: what a consumer sees is durable. Batches at the tail come from memory; what is
only on disk is read by a thread, all partitions of the request at once, so that nobody else waits. How much an answer
holds is said in `fetching/parts.py`. A client with a session (KIP-227) says and is told only what has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields, Packed
from fairlead.broker.errors import RefusedRequest
from fairlead.broker.fetching.parts import Reading
from fairlead.broker.fetching.poll import Poll
from fairlead.broker.fetching.sessions import FetchSession, Owner, SessionPoll
from fairlead.broker.pacing import Pace
from fairlead.protocol.fetch import (
    READ_COMMITTED,
    TOPIC_IDS_FROM,
    FetchAnswer,
    FetchRequest,
    FetchTopicResponse,
    Part,
    read_request,
    read_topic,
    write_response,
)

API_KEY = 1
RAW = True

_FIRST_EPOCH = 0
_NO_EPOCH = -1


async def handle(ctx: RequestContext, body: memoryview) -> AnswerFields:
    """Read; while there is too little, wait for partitions to move, as long as the client has patience."""
    return Packed(await _Fetch(ctx, read_request(body, ctx.version)).answer())


class _Fetch:
    """One request."""

    def __init__(self, ctx: RequestContext, request: FetchRequest) -> None:
        self._ctx = ctx
        self._request = request
        self._owner = Owner(ctx.listener, ctx.connection.client_host)
        self._began = asyncio.get_running_loop().time()
        self._deadline = self._began + max(0, request.max_wait_ms) / 1000
        max_bytes = min(request.max_bytes, ctx.settings.fetch_bytes_max)
        committed = request.isolation == READ_COMMITTED
        self._reading = Reading(
            ctx.readers, request.min_bytes, max_bytes, committed=committed, makes_wait=ctx.cuts.makes_wait
        )

    async def answer(self) -> list[Part]:
        """The answer, or the code that makes the client begin a new session."""
        try:
            return await self._answered()
        except RefusedRequest as error:
            return write_response([], self._ctx.version, error=error.code)

    async def _answered(self) -> list[Part]:
        request, sessions = self._request, self._ctx.fetch_sessions
        if request.session_epoch not in {_FIRST_EPOCH, _NO_EPOCH}:
            return await self._go_on()
        if request.session_id and (before := sessions.find(request.session_id, self._owner)) is not None:
            sessions.remove(before)
        if request.session_epoch == _NO_EPOCH:
            return await self._without_session(request.topics)
        return await self._begin()

    async def _without_session(self, topics: Iterable[bytes]) -> list[Part]:
        poll = Poll(self._ctx.connection.fetches, self._reading, (self._ctx.version, self._request.isolation))
        try:
            await poll.read_all(self._ctx.listener, topics)
            while poll.topics and not self._reading.enough and await poll.wait(self._deadline):
                await poll.read_moved()
            return await self._packed(poll.topics, poll.answers(), 0)
        finally:
            poll.settle()

    async def _begin(self) -> list[Part]:
        """Everything is told, and remembered if there is room. A connection has one session."""
        sessions, fetches = self._ctx.fetch_sessions, self._ctx.connection.fetches
        if fetches.session is not None:
            sessions.remove(fetches.session)
        session = sessions.begin(self._owner, self._ctx.version >= TOPIC_IDS_FROM)
        topics: list[bytes] = []
        pace = Pace()
        for data in self._request.topics:
            topics.append(data)
            session.put(read_topic(data, self._ctx.version))
            await pace.turn()
        if not session.size or not sessions.keep(session, self._began):
            session.close()
            return await self._without_session(topics)
        fetches.close()
        fetches.session = session
        async with session.lock:
            return await self._polled(SessionPoll(session, self._reading, everything=True))

    async def _go_on(self) -> list[Part]:
        """What has changed.

        Raises:
            RefusedRequest: the client is to begin a new session.
        """
        request, sessions = self._request, self._ctx.fetch_sessions
        session = sessions.find(request.session_id, self._owner)
        if session is None:
            raise _refused(ErrorCode.fetch_session_id_not_found)
        if request.session_epoch != session.epoch:
            raise _refused(ErrorCode.invalid_fetch_session_epoch)
        if session.by_id != (self._ctx.version >= TOPIC_IDS_FROM):
            raise _refused(ErrorCode.fetch_session_topic_id_error)
        session.next_epoch()
        poll_epoch = session.epoch
        async with session.lock:
            if session.closed or session.epoch != poll_epoch:
                raise _refused(ErrorCode.invalid_fetch_session_epoch)
            await self._change(session)
            if not session.size:
                sessions.remove(session)
                return await self._packed(0, (), 0)
            if not sessions.touch(session, self._began):
                raise _refused(ErrorCode.fetch_session_id_not_found)
            return await self._polled(SessionPoll(session, self._reading, everything=False))

    async def _change(self, session: FetchSession) -> None:
        pace = Pace()
        for data in self._request.topics:
            session.put(read_topic(data, self._ctx.version))
            await pace.turn()
        for key, partitions in self._request.forgotten:
            session.drop(key, partitions)
            await pace.turn()

    async def _polled(self, poll: SessionPoll) -> list[Part]:
        told = False
        try:
            await poll.read()
            while not self._reading.enough and await poll.wait(self._deadline):
                await poll.read()
            if poll.over:
                raise _refused(ErrorCode.invalid_fetch_session_epoch)
            topics = poll.answers()
            packed = await self._packed(len(topics), topics, poll.session.number)
            told = True
            return packed
        finally:
            poll.settle(told=told)

    async def _packed(
        self, count: int, topics: Iterable[FetchTopicResponse | bytes], session_number: int
    ) -> list[Part]:
        self._ctx.traffic.fetched_bytes += self._reading.size_bytes
        version, isolation = self._ctx.version, self._request.isolation
        answer = FetchAnswer(count, version, isolation, session_id=session_number)
        pace = Pace()
        for topic in topics:
            answer.add(topic)
            await pace.turn()
        return answer.finish()


def _refused(code: ErrorCode) -> RefusedRequest:
    return RefusedRequest(code, f"the fetch session cannot go on: {code.name}")
