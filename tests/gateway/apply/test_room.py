"""What the frames of all links take together of a gateway's memory."""

from __future__ import annotations

import asyncio

from tests.gateway.apply.test_session import FakeStream, outcome, session, settled
from tests.gateway.apply.test_socket import frames
from tests.support.waiting import in_time

from fairlead.gateway.apply.room import ApplyRoom
from fairlead.streamlog.frames.codec import encode_frame

UPSTREAMS = 64


async def test_64_upstreams_memory_bounded() -> None:
    """Each of 64 sources has a window of its own; what waits for a slow disk is bounded for all of them together, and
    all move on as soon as it does."""
    data = encode_frame(frames(1)[0])
    room = ApplyRoom(4 * len(data))
    streams = [FakeStream() for _ in range(UPSTREAMS)]
    sessions = [session(stream, 32_000_000, room) for stream in streams]
    reading = [asyncio.ensure_future(each.submit(data)) for each in sessions for _ in range(2)]
    await settled()
    most = done = 0
    async with in_time():
        while not all(task.done() for task in reading) or room.used_bytes:
            most = max(most, sum(len(stream.shards[0].waiting) for stream in streams))
            for stream in streams:
                for waiting in stream.shards[0].waiting:
                    waiting.set_result(outcome(1))
                    done += 1
                stream.shards[0].waiting.clear()
            await settled()
    assert most == 4
    assert done == 2 * UPSTREAMS
    for each in sessions:
        await each.close()


async def test_a_frame_that_is_larger_than_the_room_has_it_alone() -> None:
    """Otherwise it would wait for ever, and its link with it."""
    room = ApplyRoom(10)
    await room.take(5)
    large = asyncio.ensure_future(room.take(100))
    small = asyncio.ensure_future(room.take(1))
    await settled()
    assert not large.done()
    assert not small.done(), "who came later does not overtake"
    room.give(5)
    await large
    room.give(100)
    await small
    assert room.used_bytes == 1


async def test_a_connection_that_ends_while_it_waits_takes_nothing() -> None:
    """Neither the room nor the turn of those behind it."""
    room = ApplyRoom(10)
    await room.take(8)
    gone, next_one = (asyncio.ensure_future(room.take(size)) for size in (9, 2))
    await settled()
    gone.cancel()
    await settled()
    assert next_one.done()
    assert room.used_bytes == 10
    room.give(8)
    served = asyncio.ensure_future(room.take(8))
    await settled()
    lost = asyncio.ensure_future(room.take(5))
    await settled()
    room.give(8)
    lost.cancel()  # it has just been given room, and has not run yet
    await settled()
    assert served.done()
    assert room.used_bytes == 2
