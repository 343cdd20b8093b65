"""A link's calls of the destination's gateways: several URLs in turn, dead ones skipped, a limit on each wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from fairlead.model.clock import Clock, Randomness
from fairlead.model.envelope import to_error
from fairlead.model.errors import FairleadError, Unreachable
from fairlead.wire.messages import LinkAnswer, LinkRequest, body_from_json, to_json
from fairlead.wire.urls import Attempts, UrlsInTurn


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a link waits for what; tests lower it."""

    backoff_first_s: float = 0.2
    backoff_max_s: float = 10.0
    agreement_s: float = 0.8
    """A missing upstream is looked for at least this often."""
    answer_s: float = 5.0
    """A gateway that takes a connection and says nothing is dead after this."""
    skip_dead_s: float = 10.0
    repair_s: float = 1.0
    """What is still behind this long after a repair is repaired again (then twice as long, up to a minute)."""


class Backoff:
    """Growing waits with jitter: between half and the whole of 0.2, 0.4, 0.8 … 10 s."""

    def __init__(self, timing: Timing, randomness: Randomness) -> None:
        self._timing = timing
        self._randomness = randomness
        self._failures = 0

    def reset(self) -> None:
        """It worked, or somebody changed something: begin with the shortest wait."""
        self._failures = 0

    def next_s(self) -> float:
        """Seconds to wait now."""
        longest = min(self._timing.backoff_first_s * 2.0**self._failures, self._timing.backoff_max_s)
        self._failures = min(self._failures + 1, 30)
        draw = int.from_bytes(self._randomness.id16()[:4], "big") / 2**32
        return longest * (0.5 + draw / 2)


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
        return body_from_json(await self._post(urls, route, to_json(request)), LinkAnswer)

    async def tell(self, urls: Sequence[str], request: LinkRequest, route: str) -> None:
        """The same, where no answer matters."""
        await self._post(urls, route, to_json(request))

    async def _post(self, urls: Sequence[str], route: str, body: str) -> str:
        attempts = Attempts(self.in_turn(urls), httpx.HTTPError, on_failed=self._turns.failed)
        for url in attempts.urls:
            with attempts.at(url):
                response = await self._http.post(
                    url + route,
                    content=body,
                    headers={"content-type": "application/json"},
                    timeout=self._timing.answer_s,
                )
                self._turns.answered(url)
                if response.is_error:
                    raise _refusal(response, url)
                return response.text
        raise Unreachable(f"no gateway answers: {str(attempts) or 'no URL is known'}; it is tried again")


def _refusal(response: httpx.Response, url: str) -> FairleadError:
    try:
        return to_error(response.json())
    except ValueError:
        return Unreachable(f"{url} answers HTTP {response.status_code}, which no gateway of Fairlead does")
