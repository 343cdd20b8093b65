"""Who we are, while it changes: sessions that end, passwords and tokens that are changed, brokers that refuse."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.client import fetching, settings_of
from tests.kafka.fake_broker import FakeBroker, Line, fake_broker
from tests.support.certificates import Authority, pem_store
from tests.support.waiting import in_time, until

from fairlead.kafka import Cluster, TopicPartition
from fairlead.kafka.configuration.clients import consumer_settings
from fairlead.kafka.configuration.settings import Sasl, Security, Store, Tls
from fairlead.kafka.connecting.versions import FETCH, SASL_AUTHENTICATE, SASL_HANDSHAKE
from fairlead.kafka.opening import open_by_file
from fairlead.model.errors import InvalidValue, NotAllowed, TryAgain

PLAIN = Sasl("PLAIN", "ann", "secret")


def letting_in(milliseconds: int) -> Line:
    """For so long."""
    session = timedelta(milliseconds=milliseconds)
    return lambda _: {"error_code": ErrorCode.none, "auth_bytes": b"", "session_lifetime": session}


def refusing(_: Any) -> dict[str, Any]:
    return {"error_code": ErrorCode.sasl_authentication_failed, "error_message": "who?", "auth_bytes": b""}


@asynccontextmanager
async def opened(broker: FakeBroker, security: Security, **more: Any) -> AsyncIterator[Cluster]:
    async with in_time():
        settings = replace(settings_of(broker.bootstrap), security=security, **more)
        cluster = await Cluster.open(settings)
        try:
            yield cluster
        finally:
            await cluster.close()


# ---------------------------------------------------------------- sessions


async def test_we_say_again_who_we_are_on_the_same_connection_before_the_session_ends() -> None:
    """KIP-368: the broker would end it. Nothing that others ask comes in between."""
    async with fake_broker() as broker:
        broker.next(SASL_AUTHENTICATE, *(letting_in(200) for _ in range(3)))
        async with opened(broker, Security(sasl=PLAIN)):
            await until(lambda: len(broker.of(SASL_AUTHENTICATE)) == 4)
        assert broker.connections == 1


async def test_what_is_asked_meanwhile_waits_until_we_are_known_again() -> None:
    """A broker takes nothing else between the two steps."""
    async with fake_broker() as broker:
        broker.add_topic("t")
        lives = [letting_in(100)] * 20
        broker.next(SASL_AUTHENTICATE, *lives)
        async with opened(broker, Security(sasl=PLAIN)) as cluster, fetching(cluster.fetcher()) as fetcher:
            fetcher.assign(TopicPartition("t", 0), 0)
            reading = asyncio.create_task(fetcher.next())
            await until(lambda: len(broker.of(SASL_AUTHENTICATE)) >= 10)
            reading.cancel()
        apis = [seen.api for seen in broker.seen]
        assert FETCH in apis
        assert broker.connections == 2
    for connection in {seen.connection for seen in broker.seen}:
        said = [seen.api for seen in broker.seen if seen.connection == connection]
        for at, api in enumerate(said[:-1]):
            assert (api == SASL_HANDSHAKE) == (said[at + 1] == SASL_AUTHENTICATE)


# ---------------------------------------------------------------- changes


async def test_the_file_is_read_again_for_each_connection(tmp_path: Path) -> None:
    """A password is changed without a restart."""
    async with fake_broker() as broker:
        file = tmp_path / "consumer.config"
        write_file(file, broker, "old")
        settings, _ = consumer_settings(read_file(file), str(file), file)
        async with opened(broker, settings.client.security, security_now=settings.client.security_now) as cluster:
            write_file(file, broker, "new")
            broker.cut()
            await cluster.topics([])
        assert [said.auth_bytes for said in broker.of(SASL_AUTHENTICATE)] == [b"\0ann\0old", b"\0ann\0new"]


async def test_a_cluster_that_is_opened_by_its_file_reads_that_again_for_each_connection(tmp_path: Path) -> None:
    """A stream that keeps topics of Kafka goes on with a new password, and need not be told."""
    async with fake_broker() as broker, in_time():
        file = tmp_path / "consumer.config"
        write_file(file, broker, "old")
        cluster = await open_by_file(str(file))
        write_file(file, broker, "new")
        broker.cut()
        await cluster.topics([])
        await cluster.close()
        assert [said.auth_bytes for said in broker.of(SASL_AUTHENTICATE)] == [b"\0ann\0old", b"\0ann\0new"]


def write_file(file: Path, broker: FakeBroker, password: str) -> None:
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="{password}";'
    entries = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas,
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in entries.items()))


def read_file(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


async def test_a_refusal_after_we_were_let_in_is_waited_for_without_asking_again_and_again() -> None:
    """Passwords are changed in two places, one after the other; accounts are locked after some wrong ones."""
    async with fake_broker() as broker:
        current = [Security(sasl=PLAIN)]
        async with opened(broker, current[0], security_now=lambda: current[0], request_timeout_ms=2_000) as cluster:
            broker.next(SASL_AUTHENTICATE, refusing)
            broker.cut()
            with pytest.raises(TryAgain, match="user ann: SASL_AUTHENTICATION_FAILED"):
                await cluster.topics([])
            assert len(broker.of(SASL_AUTHENTICATE)) == 2
            current[0] = Security(sasl=replace(PLAIN, password="new"))
            await cluster.topics([])
            assert broker.of(SASL_AUTHENTICATE)[2].auth_bytes == b"\0ann\0new"


async def test_a_file_that_cannot_be_read_just_now_is_waited_for() -> None:
    async with fake_broker() as broker:
        broken = [False]

        def read() -> Security:
            if broken[0]:
                raise InvalidValue("consumer.config: half of it is missing")
            return Security(sasl=PLAIN)

        async with opened(broker, read(), security_now=read, request_timeout_ms=2_000) as cluster:
            broken[0] = True
            broker.cut()
            with pytest.raises(TryAgain, match="half of it is missing"):
                await cluster.topics([])


# ---------------------------------------------------------------- our certificate


@contextmanager
def strict_server(own: Path, newest: ssl.TLSVersion) -> Iterator[str]:
    """Wants to see a certificate. It uses OpenSSL itself: asyncio's servers do not send why they refuse one."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=own)
    context.verify_mode = ssl.CERT_REQUIRED
    context.maximum_version = newest
    context.load_cert_chain(own)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=_serve, args=(listener, context))
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError), context.wrap_socket(connection, server_side=True) as wrapped:
                wrapped.recv(1)


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_certificate_that_a_broker_does_not_take_is_one_line(tmp_path: Path, newest: ssl.TLSVersion) -> None:
    """None, one that is out of date, one of an authority that it does not know."""
    authority = Authority()
    brokers = pem_store(tmp_path / "broker.pem", authority.own("broker"))
    late = pem_store(tmp_path / "late.pem", authority.own("client", expired=True))
    stranger = pem_store(tmp_path / "stranger.pem", Authority("other").own("client"))
    with strict_server(brokers, newest) as address:
        for own, why in ((None, "certificate required|handshake failure"), (late, "expired"), (stranger, "unknown ca")):
            tls = Tls(authorities=Store(str(brokers)), certificate=None if own is None else Store(str(own)))
            settings = replace(settings_of(address, request_timeout_ms=5000), security=Security(tls))
            with pytest.raises(NotAllowed, match=rf"does not take our certificate \(ssl\.keystore\.…\): .*({why})"):
                async with in_time():
                    await Cluster.open(settings)
