"""One ordered connection to a replica's gateway: the frames of one run of one link.

In: encoded frames, by `offer`, which never waits. Out: the gateway's answers, told to a `FrameListener` as they come.
The gateway answers cumulatively, and no frame waits for the answer to the one before it. As many bytes are in flight as
the window allows: one request per round trip would fill only 57 % of 10 Mb/s at 600 ms. A connection that fails drops
what it holds; those frames are read again from the recorded position.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from fairlead.model.envelope import code_of
from fairlead.model.errors import FairleadError, InvalidValue, Moved, Unreachable
from fairlead.replication.carried.addresses import FrameAddress
from fairlead.replication.carried.referred import pieces_of
from fairlead.replication.sink.dial import ApplyWire, open_apply_wire
from fairlead.spark.packets import Packet
from fairlead.streamlog.numbers import slices_of_mask
from fairlead.wire.apply import Applied, Error, Ok, Refused
from fairlead.wire.control import Failed, Progress, SlicesRefused
from fairlead.wire.first_of import first_of
from fairlead.wire.urls import MOVES_MAX, Attempts, beginning_with, named
from fairlead.wire.waits import CONNECT_SECONDS

_WATCH_SECONDS = 0.5
"""How often a connection is checked against `stall_seconds`."""
TOGETHER_BYTES_MAX = 64 * 1024
"""Small frames go to the socket together up to this size, to share packets here and a commit at the destination."""

_MOVED = code_of(Moved(""))
log = structlog.get_logger("fairlead.replication.sink")


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """Bounds of a sink."""

    window_bytes: int = 32_000_000
    """Bytes in flight to one destination; the gateway's own window counts if it is smaller."""
    queue_bytes_max: int = 160_000_000
    """Bytes held for one run, including those in flight. The credit of readers stays below it; above it the run fails
    as slow."""
    stall_seconds: float = 15.0
    """A connection is dead if frames are in flight and no byte moves for this long."""
    open_seconds: float = CONNECT_SECONDS
    report_seconds: float = 0.02
    """Answers are told to the source server at most this often."""


class FrameListener(Protocol):
    """Who wants to know what became of the frames."""

    def progress(self, progress: Progress) -> None: ...

    def refused(self, refused: SlicesRefused) -> None: ...

    def failed(self, failed: Failed) -> None: ...


class GatewayRefused(FairleadError):
    """The gateway answered the first message with an error."""

    def __init__(self, answer: Error) -> None:
        super().__init__(answer.message)
        self.code = answer.code
        self.urls = answer.urls


class ApplyConnection:
    """Call `offer` and `close` on the loop that runs `run`."""

    def __init__(
        self, address: FrameAddress, settings: SinkSettings, listener: FrameListener, first_url: int = 0
    ) -> None:
        self.address = address
        self._settings = settings
        self._listener = listener
        self._urls = beginning_with(first_url, address.destination.urls)
        self._waiting: deque[Packet] = deque()
        self._sent: deque[Packet] = deque()
        self._held_bytes = 0
        self._sent_bytes = 0
        self._window_bytes = settings.window_bytes
        self._through = 0
        self._totals = (0, 0, 0)
        self._changed = asyncio.Event()
        self._failure: tuple[str, str] | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is in flight."""
        return self._held_bytes == 0

    @property
    def ended(self) -> bool:
        """Whether it has failed; frames that are offered are dropped then."""
        return self._failure is not None

    def offer(self, frame: Packet) -> None:
        """Queue a frame, or drop it if the run has failed."""
        if self.ended:
            return
        if self._held_bytes + frame.size_bytes > self._settings.queue_bytes_max and self._waiting:
            self._fail("slow", f"{self._held_bytes:,} bytes wait for {self.address.destination.cluster}")
            return
        self._waiting.append(frame)
        self._held_bytes += frame.size_bytes
        self._changed.set()

    async def run(self) -> None:
        """Connect and post until cancelled or failed; tells the listener whatever goes wrong, and never raises it."""
        try:
            await self._run()
        except GatewayRefused as error:
            self._fail(error.code, str(error))
        except (Unreachable, InvalidValue) as error:
            self._fail("unreachable", str(error))
        except FairleadError as error:
            # The failure is on this side: a referred frame could not be read. Its rows are granted anew.
            self._fail(code_of(error), str(error))
        except Exception as error:
            # A bug, or bytes that are no frame. The link fails visibly and is tried again; the others notice nothing.
            log.exception("sink failed", link=self.address.link.hex())
            bug = FairleadError(f"the sink failed ({type(error).__name__}: {error}); see the replicator's log")
            self._fail(code_of(bug), str(bug))

    async def _run(self) -> None:
        """Post where the gateways of the link say; they may name others, that take it now."""
        urls = self._urls
        for _ in range(MOVES_MAX):
            try:
                await self._run_at(urls)
                return
            except GatewayRefused as refused:
                urls = named(refused.urls)
                if refused.code != _MOVED or not urls or self._through or self._sent:
                    raise
        await self._run_at(urls)

    async def _run_at(self, urls: Sequence[str]) -> None:
        attempts = Attempts(urls, Unreachable)
        for url in attempts.urls:
            with attempts.at(url):
                async with open_apply_wire(url, self._settings.open_seconds) as wire:
                    await self._converse(wire)
                return
            if self._through or self._sent:
                break
        no_address = f"{self.address.destination.cluster} has no address; run `fairlead cluster info`"
        raise attempts.error or Unreachable(no_address)

    async def _converse(self, wire: ApplyWire) -> None:
        await self._greet(wire)
        await first_of(self._post(wire), self._listen(wire), self._watch(wire))

    async def _greet(self, wire: ApplyWire) -> None:
        try:
            async with asyncio.timeout(self._settings.stall_seconds):
                await wire.send_message(self.address.hello)
                answer = await wire.receive()
        except TimeoutError as error:
            raise Unreachable(f"{self.address.destination.cluster}: the gateway does not answer") from error
        if isinstance(answer, Error):
            raise GatewayRefused(answer)
        if not isinstance(answer, Ok):
            raise InvalidValue(f"the gateway began with {type(answer).__name__}, not Ok")
        self._window_bytes = min(self._window_bytes, answer.window_bytes)

    async def _post(self, wire: ApplyWire) -> None:
        while True:
            self._changed.clear()
            while together := self._next():
                await wire.send_frames([await pieces_of(frame) for frame in together])
            await self._changed.wait()

    def _next(self) -> list[Packet]:
        """The frames to send next: those that wait and fit into the window, several small ones at once. They count as
        in flight from now on."""
        found: list[Packet] = []
        size_bytes = 0
        while self._waiting and self._fits(self._waiting[0]):
            size_bytes += self._waiting[0].size_bytes
            if found and size_bytes > TOGETHER_BYTES_MAX:
                break
            frame = self._waiting.popleft()
            found.append(frame)
            self._sent.append(frame)
            self._sent_bytes += frame.size_bytes
        return found

    def _fits(self, frame: Packet) -> bool:
        """Whether the frame fits into the window; one frame may always be in flight, however large it is."""
        return not self._sent or self._sent_bytes + frame.size_bytes <= self._window_bytes

    async def _listen(self, wire: ApplyWire) -> None:
        while True:
            message = await wire.receive()
            if isinstance(message, Applied):
                self._applied(message)
            elif isinstance(message, Refused):
                address = self.address
                refused = SlicesRefused(address.link, address.run, address.shard, message.slices, message.position)
                self._listener.refused(refused)
            elif isinstance(message, Error):
                raise GatewayRefused(message)

    def _applied(self, message: Applied) -> None:
        count = message.through - self._through
        if not 0 <= count <= len(self._sent):
            raise InvalidValue(
                f"the gateway answered frame {message.through} of {self._through + len(self._sent)} sent"
            )
        answered = [self._sent.popleft() for _ in range(count)]
        size_bytes = sum(frame.size_bytes for frame in answered)
        self._through = message.through
        self._sent_bytes -= size_bytes
        self._held_bytes -= size_bytes
        self._changed.set()
        self._tell(message, count, size_bytes)

    def _tell(self, message: Applied, count: int, size_bytes: int) -> None:
        totals = (message.records, message.duplicates, message.behind)
        records, duplicates, behind = (now - before for now, before in zip(totals, self._totals, strict=True))
        self._totals = totals
        slices = {each: place.commit for place in message.slices for each in slices_of_mask(place.slices)}
        at = self.address
        self._listener.progress(
            Progress(at.link, at.run, at.shard, slices, count, records, size_bytes, behind, duplicates)
        )

    async def _watch(self, wire: ApplyWire) -> None:
        """Raises if frames are in flight and nothing has moved for too long in either direction."""
        clock = asyncio.get_running_loop().time
        before, since = self._movement(wire), clock()
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            now = self._movement(wire)
            if now != before or not self._sent:
                before, since = now, clock()
            elif clock() - since > self._settings.stall_seconds:
                silent = f"{self.address.destination.cluster}: nothing moved for {self._settings.stall_seconds:g} s"
                raise Unreachable(silent)

    def _movement(self, wire: ApplyWire) -> tuple[int, int, int]:
        """A value that changes whenever an answer comes or the other machine acknowledges a byte."""
        return self._through, len(self._sent), wire.acknowledged_bytes

    def _fail(self, reason: str, message: str) -> None:
        if self._failure is None:
            self._failure = (reason, message)
            self._waiting.clear()
            self._sent.clear()
            self._held_bytes = self._sent_bytes = 0
            self._changed.set()
            self._listener.failed(Failed(self.address.link, self.address.run, self.address.shard, reason, message))
