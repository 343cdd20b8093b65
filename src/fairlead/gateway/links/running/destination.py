"""A link's calls of the destination's gateways: several URLs in turn, dead ones skipped, a limit on each wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import httpx

from fairlead.client.answers import ANSWER_BYTES_MAX, answer_of
from fairlead.gateway.links.running.timing import Timing
from fairlead.model.clock import Clock
from fairlead.model.envelope import to_error
from fairlead.model.errors import FairleadError, Moved, Unreachable
from fairlead.wire.messages import body_from_json, to_json
from fairlead.wire.neighbours import (
    LinkAnswer,
    LinkRequest,
    PullRequest,
    ServerStart,
)
from fairlead.wire.urls import MOVES_MAX, Attempts, UrlsInTurn, named
from fairlead.wire.waits import COMMAND_SECONDS

T = TypeVar("T")

_NO_ADDRESS = (httpx.InvalidURL, UnicodeError)
"""What calling an address raises that cannot be one: neighbours name theirs as they like."""


class Gateways:
    """The URLs of one destination."""

    def __init__(self, http: httpx.AsyncClient, clock: Clock, timing: Timing) -> None:
        self._http = http
        self._timing = timing
        self._turns = UrlsInTurn(clock, timing.skip_dead_s)

    def in_turn(self, urls: Sequence[str]) -> tuple[str, ...]:
        """All URLs, beginning with the next one in turn, those that failed lately at the end."""
        return self._turns.next(urls)

    async def ask(self, urls: Sequence[str], request: LinkRequest, route: str = "/gateway/link") -> LinkAnswer:
        """Contact the destination.

        Raises:
            Unreachable: no URL answers.
            FairleadError: what the gateway answered: NotAgreed, UnknownStream, StreamChanged …
        """
        return await self.ask_about(urls, route, request, LinkAnswer)

    async def start_of(self, urls: Sequence[str]) -> ServerStart:
        """The destination's present start. Raises as `ask`."""
        return body_from_json((await self._post(urls, "/gateway/pulse", "{}")).text, ServerStart)

    async def pull(self, urls: Sequence[str], request: PullRequest, bytes_max: int) -> bytes:
        """The rest of some partitions; an answer of more bytes is none. Raises as `ask`."""
        return (await self._post(urls, "/gateway/pull", to_json(request), bytes_max)).content

    async def ask_about(self, urls: Sequence[str], route: str, request: object, kind: type[T]) -> T:
        """A question that changes nothing, whose answer is of that kind. Raises as `ask`."""
        return body_from_json((await self._post(urls, route, to_json(request))).text, kind)

    async def post(self, urls: Sequence[str], route: str, message: object) -> None:
        """Something is to be done there. Raises as `ask`."""
        await self._post(urls, route, to_json(message))

    async def tell(self, urls: Sequence[str], request: LinkRequest, route: str) -> None:
        """The same, where no answer matters."""
        await self._post(urls, route, to_json(request))

    async def _post(
        self, urls: Sequence[str], route: str, body: str, bytes_max: int = ANSWER_BYTES_MAX
    ) -> httpx.Response:
        """Ask, and follow a gateway to those that it says have taken over."""
        for _ in range(MOVES_MAX):
            try:
                return await self._post_at(urls, route, body, bytes_max)
            except Moved as moved:
                urls = named(moved.urls)
                if not urls:
                    raise
        return await self._post_at(urls, route, body, bytes_max)

    async def _post_at(self, urls: Sequence[str], route: str, body: str, bytes_max: int) -> httpx.Response:
        attempts = Attempts(self.in_turn(urls), httpx.HTTPError, *_NO_ADDRESS, on_failed=self._turns.failed)
        for url in attempts.urls:
            with attempts.at(url):
                response = await answer_of(
                    self._http,
                    "POST",
                    url + route,
                    COMMAND_SECONDS,
                    bytes_max=bytes_max,
                    content=body,
                    headers={"content-type": "application/json"},
                    timeout=self._timing.answer_s,
                )
                self._turns.answered(url)
                if response.is_error:
                    raise _refusal(response, url)
                return response
        raise Unreachable(f"no gateway answers: {str(attempts) or 'no URL is known'}")


def _refusal(response: httpx.Response, url: str) -> FairleadError:
    """What a gateway says. What another program says is not shown: it may be one that only this server can reach."""
    try:
        answer = response.json()
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict) and "errors" in answer and answer.get("status") == "ERROR":
        return to_error(answer)
    return Unreachable(f"{url} answers HTTP {response.status_code}, which no gateway of Fairlead does")
