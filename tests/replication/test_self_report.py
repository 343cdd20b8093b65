"""What a replicator tells its server of itself."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from fairlead.replication.self_report import SelfReport
from fairlead.spark.control import Control
from fairlead.wire.control import ReplicatorState
from tests.replication.fakes import running
from tests.streamlog.world import FakeClock, SeededRandomness
from tests.support.waiting import until


class Heard:
    """A control connection that only listens."""

    def __init__(self) -> None:
        self.states: list[ReplicatorState] = []

    async def send(self, message: Any) -> None:
        await asyncio.sleep(0)
        self.states.append(message)


def report() -> SelfReport:
    return SelfReport(FakeClock(), SeededRandomness(1))


async def test_the_server_hears_the_present_state_and_each_change() -> None:
    """Also one that comes while another is being sent; an error stays until all is well."""
    found, heard = report(), Heard()
    async with running(found.tell(cast(Control, heard))):
        await until(lambda: heard.states)
        found.doing("starting")
        await asyncio.sleep(0)
        found.failed("x")
        await found.heard()
        found.doing("carrying")
        await found.heard()
        found.well()
        await found.heard()
    said = [(state.doing, state.failures, state.error) for state in heard.states]
    assert said[0] == ("waiting", 0, "")
    assert said[-3:] == [("failed", 1, "x"), ("carrying", 1, "x"), ("carrying", 1, "")]


async def test_what_has_not_changed_is_not_said_again() -> None:
    """A query that goes well for the second time is no news."""
    found, heard = report(), Heard()
    async with running(found.tell(cast(Control, heard))):
        await found.heard()
        found.well()
        found.doing("waiting")
        found.doing("starting")
        await found.heard()
    assert [state.doing for state in heard.states] == ["waiting", "starting"]
