"""The process `fairlead mirror`: flows run side by side, signals heard, an exit code.

The flows of a process know nothing of each other: each has its clusters, its books and its positions. One that cannot
go on is told, and the others do.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

import uvloop

from fairlead.mirror.carrying.engine import Engine
from fairlead.mirror.engines import engines_of
from fairlead.mirror.flowing import Flowing
from fairlead.mirror.report import Say, summary
from fairlead.mirror.told.files import Flow
from fairlead.model.clock import SystemClock
from fairlead.model.errors import FairleadError
from fairlead.model.shown import shown
from fairlead.process.interrupts import INTERRUPTED

FAILED: Final = 1


def run_until_told(flows: Sequence[Flow]) -> int:
    """Run mirrors; the exit code: 0 everything is well, 1 something was lost, refused or stands still, 128 and the
    signal's number: a signal ended what was to end by itself, 130 cut off.

    Raises:
        FairleadError: one alone could not begin, or may not go on.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(flows))


async def _run(flows: Sequence[Flow]) -> int:
    async with engines_of(flows, say) as engines:
        return await _carried(flows, engines)


async def _carried(flows: Sequence[Flow], engines: Sequence[Engine]) -> int:
    several = len(flows) > 1
    flowing = [
        Flowing(flow, _say_of(flow.label) if several else say, engine)
        for flow, engine in zip(flows, engines, strict=True)
    ]
    async with AsyncExitStack() as stack:
        options = flows[0].options
        if options.http is not None and not options.dry_run:
            from fairlead.mirror.watching.serving import watched  # with all that HTTP needs

            clock = SystemClock()
            await stack.enter_async_context(watched(flowing, options.http, clock, say, insecure=options.insecure))
        return await _until_ended(flowing)


async def _until_ended(flowing: Sequence[Flowing]) -> int:
    several = len(flowing) > 1
    signals = _Signals(flowing)
    cut = asyncio.create_task(signals.again.wait())
    running = [asyncio.create_task(_one(each, alone=not several)) for each in flowing]
    ended = asyncio.gather(*running)
    await asyncio.wait((ended, cut), return_when=asyncio.FIRST_COMPLETED)
    cut.cancel()
    if not ended.done():
        ended.cancel()
        await asyncio.gather(*running, ended, return_exceptions=True)  # else asyncio tells of `ended` by itself
        return INTERRUPTED
    codes = ended.result()
    if signals.first is not None and any(each.was_cut_off for each in flowing):
        codes.append(128 + signals.first)
    return max(codes)


async def _one(flowing: Flowing, *, alone: bool) -> int:
    """Its exit code."""
    try:
        await flowing.run()
    except FairleadError as error:
        if alone:
            raise
        say(f"fairlead: {flowing.flow.label}: {error}")
        return FAILED
    mirror = flowing.mirror
    if flowing.flow.options.dry_run or mirror is None:
        return 0
    heading = "" if alone else f"{flowing.flow.label}\n"
    print(heading + summary(mirror.tally, mirror.left, mirror.equal_from), flush=True)
    return 0 if mirror.clean else FAILED


class _Signals:
    """The first one ends the mirrors in order."""

    def __init__(self, flowing: Sequence[Flowing]) -> None:
        self.first: int | None = None
        self.again = asyncio.Event()
        """Set by the second one."""
        self._flowing = flowing
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._heard, number)

    def _heard(self, number: int) -> None:
        if self.first is not None:
            self.again.set()
            return
        self.first = number
        say("ends: fetches no more, and waits for what is under way (a second Ctrl-C ends at once)")
        for each in self._flowing:
            each.stop()


# ---------------------------------------------------------------- people


def say(line: str) -> None:
    """A line for people."""
    print(shown(line), file=sys.stderr, flush=True)


def warn(warning: str) -> None:
    """Something that a person should know."""
    say(f"fairlead: warning: {warning}")


def _say_of(label: str) -> Say:
    return lambda line: say(f"{label}: {line}")
