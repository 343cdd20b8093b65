"""Answers of other clusters, which may be hostile: taken piece by piece, up to a bound, and never decompressed.

1.46 MB of gzip took 3 GB. Nothing here asks for compression, and an answer that is compressed all the same is broken.
"""

from __future__ import annotations

from typing import Any, Final

import httpx

ANSWER_BYTES_MAX: Final = 8_000_000
"""Of another cluster's gateway to a server: twice 10,000 notes, and the positions of 256 shards."""
LIST_BYTES_MAX: Final = 256_000_000
"""Of a server to the command line or a reader of its records: a million topics in a list."""

_ASKED: Final = {"accept-encoding": "identity"}


async def answer_of(
    http: httpx.AsyncClient, method: str, url: str, seconds: float, *, bytes_max: int = ANSWER_BYTES_MAX, **how: Any
) -> httpx.Response:
    """One call of another cluster's gateway, its answer taken within so many seconds in all.

    Raises:
        httpx.TransportError: there is no answer, or none that is taken.
    """
    import asyncio  # the command line has no use for it, and it takes long to import

    headers = {**how.pop("headers", {}), **_ASKED}
    try:
        async with asyncio.timeout(seconds), http.stream(method, url, headers=headers, **how) as response:
            body = _Body(response, bytes_max)
            async for piece in response.aiter_bytes():
                body.take(piece)
            return body.whole()
    except TimeoutError:
        raise httpx.ReadTimeout(f"no whole answer in {seconds:g} s") from None


def answer_now(http: httpx.Client, method: str, url: str, **how: Any) -> httpx.Response:
    """One call that is waited for. Raises as `answer_of`."""
    with http.stream(method, url, headers=_ASKED, **how) as response:
        body = _Body(response, LIST_BYTES_MAX)
        for piece in response.iter_bytes():
            body.take(piece)
        return body.whole()


class _Body:
    def __init__(self, response: httpx.Response, bytes_max: int) -> None:
        self._response = response
        self._bytes_max = bytes_max
        self._bytes = bytearray()
        if response.headers.get("content-encoding", "identity") != "identity":
            raise self._broken("the answer is compressed, which was not asked for")

    def take(self, piece: bytes) -> None:
        self._bytes += piece
        if len(self._bytes) > self._bytes_max:
            raise self._broken(f"the answer is larger than {self._bytes_max:,} bytes")

    def whole(self) -> httpx.Response:
        response = self._response
        return httpx.Response(response.status_code, content=bytes(self._bytes), request=response.request)

    def _broken(self, why: str) -> httpx.RemoteProtocolError:
        return httpx.RemoteProtocolError(why, request=self._response.request)
