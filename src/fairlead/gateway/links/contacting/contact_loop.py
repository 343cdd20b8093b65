"""The loop of one link: it does what the link's state says, and waits.

A link has a loop of its own, so a destination that is a black hole delays nobody else; an idle one runs no timer and
sends nothing (`pulse.py` asks for all of them). Never decides what an answer means (`contacts.py`) or what follows an
event (`lifecycle.py`).
"""

from __future__ import annotations

import asyncio

from fairlead.gateway.links.contacting.contacts import Contacts
from fairlead.gateway.links.contacting.copies import EndedCopies
from fairlead.gateway.links.contacting.failures import Failures
from fairlead.gateway.links.running.lifecycle import Event
from fairlead.gateway.links.running.running_link import RunningLink
from fairlead.gateway.links.running.timing import Timing
from fairlead.model.errors import BadRequest, FairleadError, NotAgreed


class ContactLoop:
    """`start` and `end` enclose its life."""

    def __init__(
        self, link: RunningLink, contacts: Contacts, failures: Failures, copies: EndedCopies, timing: Timing
    ) -> None:
        self.link = link
        self._contacts = contacts
        self._failures = failures
        self._copies = copies
        self._timing = timing
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to ask."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def end(self) -> None:
        """The link is gone."""
        self.link.attention.close()
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """End, and wait for that."""
        self.end()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        link = self.link
        while True:
            await link.attention.move()
            if link.state.resting:
                await link.attention.rest(self._longest_s())
            else:
                link.on(Event.BEGUN)
                await self._ask()

    async def _ask(self) -> None:
        try:
            await self._contacts.ask(self.link)
        except FairleadError as error:
            self._failures.note(self.link, error, Event.FAILED)
            await self._end_copy(error)
        except Exception as error:
            self._failures.note_bug(self.link, error)

    async def _end_copy(self, error: FairleadError) -> None:
        """A copy whose destination does not want it ends."""
        if self.link.record.once is None or not isinstance(error, BadRequest):
            return
        try:
            await self._copies.end(self.link, error)
        except FairleadError as failure:
            self._failures.note(self.link, failure, Event.FAILED)

    def _longest_s(self) -> float:
        """A person who adds the missing upstream waits for this, so the link asks more often than after a dead site."""
        return self._timing.agreement_s if isinstance(self.link.error, NotAgreed) else self._timing.backoff_max_s
