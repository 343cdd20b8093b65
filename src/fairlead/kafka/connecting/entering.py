"""A connection begins: at one of the addresses that a broker's name stands for, which then knows who we are.

Some of several addresses may be dead. Each gets its share of the time, that which let us in last before all others
(`client.dns.lookup=use_all_dns_ips` of Java's clients, which use each for a connection of its own).
"""

from __future__ import annotations

import asyncio
import os
import socket

from fairlead import __version__
from fairlead.kafka.configuration.settings import ClientSettings
from fairlead.kafka.connecting.connection import Connection
from fairlead.kafka.connecting.identity import Beginning, Identity
from fairlead.kafka.connecting.tls import refusal_of
from fairlead.model.addresses import Address
from fairlead.model.errors import Unanswered, Unreachable
from fairlead.protocol.framing import SCRATCH_BYTES


class Entering:
    """Of all connections of a client."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._identity = Identity(settings)
        self._entered: dict[Address, Address] = {}
        """By a broker's name: where it let us in last."""
        self._loop = asyncio.get_running_loop()

    async def connection(self, address: Address) -> tuple[Connection, float]:
        """A new connection, and after how many seconds to say again who we are; 0: never.

        Raises:
            Unreachable, Malformed
            NotAllowed: it does not let us in, or is not who it says, and no broker of the cluster has let us in before.
        """
        beginning = await self._identity.towards(address)
        deadline = self._loop.time() + self._settings.connect_timeout_ms / 1000
        failures: list[str] = []
        numbers = await self._numbers(address, deadline)
        for left, number in zip(range(len(numbers), 0, -1), numbers, strict=True):
            share = (deadline - self._loop.time()) / left
            try:
                entered = await self._entered_at(number, address, beginning, share)
            except (OSError, Unanswered) as error:
                failures.append(_why(f"broker {address}", error, known=address in self._entered))
            else:
                self._identity.let_in(address)
                self._entered[address] = number
                return entered
        raise Unreachable("; ".join(dict.fromkeys(failures)))

    async def introduce_again(self, connection: Connection, address: Address) -> float:
        """Say again who we are; after how many seconds to do so once more. Raises: as `connection`."""
        beginning = await self._identity.towards(address)
        return await beginning.introduce(connection)

    async def _numbers(self, address: Address, deadline: float) -> list[Address]:
        """What a name stands for, in the order in which to try it. Raises: Unreachable."""
        try:
            async with asyncio.timeout_at(deadline):
                found = await self._loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise Unreachable(_why(f"broker {address}", error, known=True)) from None
        numbers = dict.fromkeys(Address(str(place[0]), int(place[1])) for *_, place in found)
        return sorted(numbers, key=lambda number: number != self._entered.get(address))

    async def _entered_at(
        self, number: Address, address: Address, beginning: Beginning, seconds: float
    ) -> tuple[Connection, float]:
        """Raises: OSError, Unanswered: it cannot be reached there; Unreachable, Malformed, NotAllowed."""
        settings = self._settings
        connection = Connection(address, settings.client_id, settings.request_timeout_ms / 1000, self._scratch)
        name = None if beginning.context is None else address.host
        try:
            async with asyncio.timeout(seconds):
                await self._loop.create_connection(
                    lambda: connection, number.host, number.port, ssl=beginning.context, server_hostname=name
                )
                await connection.ask_versions(__version__)
                return connection, await beginning.introduce(connection)
        except BaseException as error:
            connection.close()
            refusal = refusal_of(error, connection.who)
            if refusal is not None:
                raise self._identity.refused(address, refusal) from None
            raise


def _why(who: str, error: OSError | Unanswered, *, known: bool) -> str:
    """Why there is no connection. One that has let us in before is `known` to speak our protocol."""
    if isinstance(error, TimeoutError):
        return f"{who}: it does not answer"
    if isinstance(error, ConnectionError) and error.errno:
        return f"{who}: {os.strerror(error.errno)}"  # the loop's own words name the address once more
    if isinstance(error, OSError):
        return f"{who}: {error.strerror or error}"
    return str(error) if known else f"{error}; is its protocol the one of `security.protocol`?"
