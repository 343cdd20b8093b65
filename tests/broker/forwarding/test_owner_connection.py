"""An owner that does not answer is given up, and what was asked hears whether anything was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.support.waiting import in_time, until

from fairlead.broker.forwarding.owner_connection import OwnerConnection
from fairlead.model.errors import Unanswered, Unreachable

TakeOver = Callable[[asyncio.Transport, bytes], None]
SILENCE = r"the owner has not answered for 0\.01 s"


class Wire(asyncio.Transport):
    """Takes what is sent, and says nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.is_taken = self.is_aborted = False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.is_taken = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def abort(self) -> None:
        self.is_aborted = True


async def test_an_owner_that_falls_silent_may_have_done_what_was_sent() -> None:
    wire = Wire()

    async def open(take_over: TakeOver) -> None:
        take_over(wire, b"")

    made = OwnerConnection(open, answer_seconds=0.01)
    await until(lambda: wire.is_taken)
    async with in_time():
        with pytest.raises(Unanswered, match=SILENCE):
            await made.ask([b"a batch"])
    assert wire.sent.endswith(b"a batch")
    assert wire.is_aborted
    assert made.ended


async def test_to_an_owner_that_takes_no_connection_nothing_was_sent() -> None:
    async def open(take_over: TakeOver) -> None:
        await asyncio.Event().wait()

    async with in_time():
        with pytest.raises(Unreachable, match=SILENCE):
            await OwnerConnection(open, answer_seconds=0.01).ask([b"a batch"])
