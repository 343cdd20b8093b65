"""Long answers in pieces, so that no Kafka client waits for somebody's list of a hundred thousand topics."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

ITEMS_PER_TURN = 500
"""Some milliseconds of work."""


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """The items; between some hundreds of them everything else has its turn."""
    for number, item in enumerate(items, 1):
        yield item
        if number % ITEMS_PER_TURN == 0:
            await asyncio.sleep(0)


async def rendered(envelope: Mapping[str, Any]) -> bytes:
    """The JSON of an envelope whose `data` may be long."""
    rows = [json.dumps(row, ensure_ascii=False) async for row in in_turns(envelope["data"])]
    head = json.dumps({name: value for name, value in envelope.items() if name != "data"})
    return f'{head[:-1]}, "data": [{", ".join(rows)}]}}'.encode(errors="surrogatepass")
