"""Producers of Python that stay open, with the time that they give a request and a record."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError as AiokafkaConnectionError
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer

from tests.interop.clients.aiokafka_client import Aiokafka
from tests.interop.clients.base import Client
from tests.interop.clients.confluent_client import Confluent
from tests.interop.clients.kafka_python_client import KafkaPython
from tests.interop.site import Site
from tests.support.waiting import WAIT_SECONDS, in_time

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a producer waits, and whether what it sends again is stored once."""

    request_ms: int
    """For the answer to a request; then the connection is closed and the request is sent again."""
    delivery_ms: int
    """For a record to be acknowledged, all attempts together; then the record has failed."""
    idempotent: bool = True


class OpenProducer(ABC):
    """A producer to partition 0 of a topic; each record has an outcome in time."""

    @abstractmethod
    def send(self, value: bytes) -> Future[None]:
        """Hand a record over; the future has what became of it."""

    @abstractmethod
    def close(self) -> None:
        """Give up what was not sent, and end."""

    def outcomes(self, values: Sequence[bytes]) -> list[BaseException | None]:
        """What became of records that were sent one after the other without waiting."""
        sent = [self.send(value) for value in values]
        return [future.exception(WAIT_SECONDS) for future in sent]


class ConfluentProducer(OpenProducer):
    """`socket.timeout.ms` is the time of a request."""

    def __init__(self, site: Site, topic: str, patience: Patience) -> None:
        self._topic = Confluent().topic(site, topic)
        self._producer = Producer(
            {
                "bootstrap.servers": site.main,
                "enable.idempotence": patience.idempotent,
                "socket.timeout.ms": patience.request_ms,
                "request.timeout.ms": patience.request_ms,
                "delivery.timeout.ms": patience.delivery_ms,
                "reconnect.backoff.max.ms": 200,
                "linger.ms": 5,
            }
        )
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def send(self, value: bytes) -> Future[None]:
        future: Future[None] = Future()

        def delivered(error: object, _: object) -> None:
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(KafkaException(error))

        self._producer.produce(self._topic, value, partition=0, on_delivery=delivered)
        return future

    def close(self) -> None:
        self._ending.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(WAIT_SECONDS)

    def _poll(self) -> None:
        while not self._ending.is_set():
            self._producer.poll(0.05)


class KafkaPythonProducer(OpenProducer):
    def __init__(self, site: Site, topic: str, patience: Patience) -> None:
        self._topic = topic
        self._producer = KafkaProducer(
            bootstrap_servers=site.of_stream,
            enable_idempotence=patience.idempotent,
            request_timeout_ms=patience.request_ms,
            delivery_timeout_ms=patience.delivery_ms,
            reconnect_backoff_max_ms=200,
            bootstrap_timeout_ms=int(WAIT_SECONDS * 1000),
            max_block_ms=int(WAIT_SECONDS * 1000),
            linger_ms=5,
        )

    def send(self, value: bytes) -> Future[None]:
        future: Future[None] = Future()
        sent = self._producer.send(self._topic, value, partition=0)
        sent.add_callback(lambda _: future.set_result(None))
        sent.add_errback(future.set_exception)
        return future

    def close(self) -> None:
        self._producer.close(timeout=0)


class AiokafkaProducer(OpenProducer):
    """It has one time for both. An idempotent record that was sent never fails: it is sent again without end."""

    def __init__(self, site: Site, topic: str, patience: Patience) -> None:
        self._topic = Aiokafka().topic(site, topic)
        self._in_order = asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._producer = self._call(self._start(site, patience)).result(WAIT_SECONDS)

    async def _start(self, site: Site, patience: Patience) -> AIOKafkaProducer:
        """It asks for metadata once, within the time of a request; another one is made until it is told in time."""
        async with in_time():
            while True:
                producer = AIOKafkaProducer(
                    bootstrap_servers=site.main,
                    enable_idempotence=patience.idempotent,
                    request_timeout_ms=patience.request_ms,
                    linger_ms=5,
                )
                try:
                    await producer.start()
                except AiokafkaConnectionError:
                    await producer.stop()
                else:
                    return producer

    def send(self, value: bytes) -> Future[None]:
        return self._call(self._send(value))

    async def _send(self, value: bytes) -> None:
        async with self._in_order:
            acknowledged = await self._producer.send(self._topic, value, partition=0)
        await acknowledged

    def close(self) -> None:
        self._call(self._producer.stop()).result(WAIT_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


Make = Callable[[Site, str, Patience], OpenProducer]
PRODUCERS: dict[Client, Make] = {
    Confluent(): ConfluentProducer,
    KafkaPython(): KafkaPythonProducer,
    Aiokafka(): AiokafkaProducer,
}
"""By the client whose column of the table they are in."""
