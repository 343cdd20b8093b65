"""Questions of readers: a long one is asked in parts that a server takes."""

from __future__ import annotations

import json
from functools import partial

import httpx
import pytest

from fairlead.listening.guard import BODY_BYTES_MAX
from fairlead.model.limits import REQUEST_ITEMS_MAX
from fairlead.records.client import RecordsClient


def test_long_lists_are_asked_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream may have a million topics, and a call's body 1 MB."""
    sizes: list[tuple[int, int]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        items = body.get("topics") or body.get("numbers")
        sizes.append((len(request.content), len(items)))
        if request.url.path.endswith("/names"):
            return httpx.Response(200, json={"names": [[number, str(number)] for number in items]})
        topic = {"shard": 0, "number": 1, "partitions": [[0, 1]]}
        if request.url.path.endswith("/topics"):
            return httpx.Response(200, json={"topics": [{"name": name, **topic} for name in items]})
        found = [{"shard": 0, "number": int(name), "offsets": [0]} for name in items]
        return httpx.Response(200, json={"topics": found})

    monkeypatch.setattr(httpx, "Client", partial(httpx.Client, transport=httpx.MockTransport(answer)))
    client = RecordsClient(["http://one:1"], "/ships")
    names = [f"{number:0249}" for number in range(5_000)]
    assert [topic.name for topic in client.topics(names)] == names
    assert len(client.offsets_at(names, 0)) == 5_000
    numbers = range(10**18, 10**18 + 100_000)
    assert list(client.names(0, numbers)) == list(numbers)
    assert client.topics([]) == []
    assert max(sizes)[0] < BODY_BYTES_MAX
    assert max(count for _, count in sizes) < REQUEST_ITEMS_MAX
