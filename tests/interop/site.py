"""A running cluster with one stream that every client can name, and what the tests do to it from the inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from fairlead.broker.apis import APIS
from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import Packed, PendingAnswer, Submitted
from fairlead.cluster.values import StreamSettings
from fairlead.model.settings import Settings
from fairlead.protocol.batch import BatchHeader, read_header
from fairlead.storage.interface import Storage
from tests.support.broker import RunningBroker, run_broker

T = TypeVar("T")

STREAM = "/interop"


class Site:
    """One stream of a running cluster, on the main listener and on a listener of its own."""

    def __init__(self, broker: RunningBroker, path: str, **settings: Any) -> None:
        self.broker = broker
        self.path = path
        self.stream = broker.call(broker.cluster.create_stream(path, StreamSettings(**settings)))
        self.main = broker.bootstrap
        self.of_stream = broker.expose(path)

    def another(self, path: str, **settings: Any) -> Site:
        """Another stream of the same cluster."""
        return Site(self.broker, path, **settings)

    def make_topic(self, name: str, partitions: int = 1) -> str:
        self.broker.call(self.stream.create_topic(name, partitions))
        return name

    def headers(self, topic: str, partition: int = 0) -> list[BatchHeader]:
        """The stored batches of a partition."""
        shard, found = self.stream.topic(topic)
        fetched = shard.reader.fetch(found.number, partition, 0, 2**30)
        return [read_header(batch) for batch in fetched.batches]

    def lose_answers(self, api_key: int, count: int) -> LostAnswers:
        """The next answers of an API are lost after the request was carried out: the connection closes instead."""
        return LostAnswers(api_key, count)

    def watched(self, api_key: int) -> Requests:
        """Counts the requests of an API that come."""
        return Requests(api_key)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Nobody listens at the addresses that the clients know, until the block ends."""
        addresses = {None: self.main, self.path: self.of_stream}
        for stream in addresses:
            self.broker.call(self.broker.server.stop(stream))
        try:
            yield
        finally:
            for stream, address in addresses.items():
                host, port = address.rsplit(":", 1)
                self.broker.call(self.broker.server.start(host, int(port), stream))


@contextmanager
def run_site(data: Path | Storage) -> Iterator[Site]:
    """A site until the block ends; its groups gather members for a short time only."""
    with run_broker(data, name="site", settings=replace(Settings(), initial_rebalance_delay_ms=200)) as broker:
        yield Site(broker, STREAM)


class WatchedApi:
    """While entered, the requests of one API come through `submit`."""

    def __init__(self, api_key: int) -> None:
        self._key = api_key

    def __enter__(self) -> Self:
        self._api = APIS[self._key]
        APIS[self._key] = replace(self._api, submit=self.submit)
        return self

    def __exit__(self, *exc: object) -> None:
        APIS[self._key] = self._api

    def submit(self, ctx: RequestContext, body: memoryview) -> Submitted:
        assert self._api.submit is not None
        return self._api.submit(ctx, body)


class Requests(WatchedApi):
    """While entered, requests of one API are counted."""

    count = 0

    def submit(self, ctx: RequestContext, body: memoryview) -> Submitted:
        self.count += 1
        return super().submit(ctx, body)


class LostAnswers(WatchedApi):
    """While entered, requests of one API are carried out and some answers are lost."""

    def __init__(self, api_key: int, count: int) -> None:
        super().__init__(api_key)
        self._left = count
        self.lost = 0

    def submit(self, ctx: RequestContext, body: memoryview) -> Submitted:
        submitted = super().submit(ctx, body)
        assert isinstance(submitted, PendingAnswer)
        return PendingAnswer(submitted.futures, partial(self._finish, submitted.finish))

    def _finish(self, finish: Callable[[], Packed | None]) -> Packed | None:
        made = finish()
        if self._left > 0:
            self._left -= 1
            self.lost += 1
            raise ConnectionResetError("the test loses this answer")
        return made
