"""The URLs of one cluster, tried in turn until one takes the call; alike for callers that block and that do not.

attempts = Attempts(urls, httpx.ConnectError)
for url in attempts.urls:
    with attempts.at(url):
        return http.get(url)
raise Unreachable(f"no server answers at {attempts}")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from fairlead.model.clock import Clock

MOVES_MAX: Final = 3
"""How often in a row a call follows a gateway to others that it names."""
NAMED_MAX: Final = 16
"""Gateways that one answer may name."""
_ADDRESS: Final = re.compile(r"https?://(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?/?", re.ASCII)


class Attempts:
    """One call: at which URLs it failed so that the next one may be tried, and why."""

    def __init__(
        self, urls: Sequence[str], *skipped: type[Exception], on_failed: Callable[[str], object] | None = None
    ) -> None:
        """`skipped`: what sends the call to the next URL; `on_failed` is told at which that was."""
        self.urls = tuple(urls)
        self.error: Exception | None = None
        """The last failure."""
        self._skipped = skipped
        self._on_failed = on_failed
        self._failures: list[str] = []

    @contextmanager
    def at(self, url: str) -> Iterator[None]:
        """Encloses what is tried at one URL; it is left by `return` where that went well."""
        try:
            yield
        except self._skipped as error:
            self.error = error
            self._failures.append(f"{url} ({str(error) or type(error).__name__})")
            if self._on_failed is not None:
                self._on_failed(url)

    def __str__(self) -> str:
        """The URLs that failed, each with its reason; empty if none was tried."""
        return ", ".join(self._failures)


class UrlsInTurn:
    """Remembers, over the calls of one cluster, whose turn it is and which URLs failed lately."""

    def __init__(self, clock: Clock, skip_dead_s: float) -> None:
        self._clock = clock
        self._skip_dead_ms = skip_dead_s * 1000
        self._turn = 0
        self._dead_until_ms: dict[str, float] = {}

    def next(self, urls: Sequence[str]) -> tuple[str, ...]:
        """All URLs, beginning with the next one in turn, those that failed lately at the end."""
        now = self._clock.monotonic_ms()
        found = beginning_with(self._turn, urls)
        self._turn += 1
        return tuple(sorted(found, key=lambda url: self._dead_until_ms.get(url, 0) > now))

    def failed(self, url: str) -> None:
        """It is taken last for a while."""
        self._dead_until_ms[url] = self._clock.monotonic_ms() + self._skip_dead_ms

    def answered(self, url: str) -> None:
        """It lives."""
        self._dead_until_ms.pop(url, None)


def named(urls: Sequence[str]) -> tuple[str, ...]:
    """What another cluster has named as its gateways, as far as these are addresses and nothing more: no path, and no
    name and password, that somebody else's server would be called with."""
    return tuple(url.rstrip("/") for url in urls[:NAMED_MAX] if _ADDRESS.fullmatch(url))


def beginning_with(turn: int, urls: Sequence[str]) -> tuple[str, ...]:
    """All URLs in their order, another one first at each turn."""
    start = turn % len(urls) if urls else 0
    return (*urls[start:], *urls[:start])
