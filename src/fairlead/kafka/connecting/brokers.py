"""The brokers of a cluster: where they are, and connections to them."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Collection, Mapping

from fairlead import __version__
from fairlead.kafka.configuration.settings import ClientSettings
from fairlead.kafka.connecting.connection import Connection
from fairlead.kafka.connecting.sasl import authenticate
from fairlead.kafka.connecting.tls import context_of
from fairlead.kafka.errors import PASSING
from fairlead.kafka.values import NO_NODE
from fairlead.model.addresses import Address
from fairlead.model.errors import NotAllowed, Unanswered, Unreachable
from fairlead.protocol.framing import SCRATCH_BYTES


class Brokers:
    """Opens connections: a shared one to each broker for questions, others for whoever asks."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._nodes: dict[int, Address] = {}
        self._controller = NO_NODE
        self._shared: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}
        self._turn = itertools.count()
        self._all: set[Connection] = set()

    def learn(self, nodes: Mapping[int, Address], controller: int) -> None:
        """The cluster has these brokers now."""
        self._nodes = dict(nodes)
        self._controller = controller

    @property
    def nodes(self) -> Collection[int]:
        """Ids of the brokers, as the cluster named them last."""
        return self._nodes.keys()

    async def connect(self, node: int) -> Connection:
        """A new connection to a broker; whoever asked for it closes it.

        Raises:
            Unreachable, Unanswered, Malformed; NotAllowed: it does not let us in, or is not who it says.
        """
        return await self._open(self._address(node))

    async def of(self, node: int) -> Connection:
        """The shared connection to a broker. Raises: as `connect`."""
        return await self._share(self._address(node))

    async def at(self, address: Address) -> Connection:
        """The shared connection to the broker at an address. Raises: as `connect`."""
        return await self._share(address)

    async def controller(self) -> Connection:
        """The shared connection to the broker that topics are made by, or knows which one. Raises: as `any`."""
        return await (self.of(self._controller) if self._controller in self._nodes else self.any())

    async def any(self) -> Connection:
        """A shared connection to any broker; another one each time that none can be had from the one before.

        Raises:
            Unreachable: none of them can be reached; NotAllowed.
        """
        for connection in self._shared.values():
            if not connection.outdated:
                return connection
        addresses = list(dict.fromkeys([*self._nodes.values(), *self.settings.bootstrap]))
        first = next(self._turn) % len(addresses)
        failures = []
        for address in addresses[first:] + addresses[:first]:
            try:
                return await self._share(address)
            except PASSING as error:
                failures.append(str(error))
        raise Unreachable("; ".join(failures))

    def close(self) -> None:
        """End all connections."""
        for connection in list(self._all):
            connection.close()
        self._all.clear()
        self._shared.clear()

    def _address(self, node: int) -> Address:
        address = self._nodes.get(node)
        if address is None:
            raise Unreachable(f"broker {node} is not among those that the cluster names")
        return address

    async def _share(self, address: Address) -> Connection:
        async with self._opening.setdefault(address, asyncio.Lock()):
            found = self._shared.get(address)
            if found is None or found.outdated:
                # The one before ends when what is under way with it has been answered, or by its own clock.
                found = self._shared[address] = await self._open(address)
            return found

    async def _open(self, address: Address) -> Connection:
        settings = self.settings
        connection = Connection(address, settings.client_id, settings.request_timeout_ms / 1000, self._scratch)
        try:
            async with asyncio.timeout(settings.connect_timeout_ms / 1000):
                await self._begin(connection, address)
        except BaseException as error:
            connection.close()
            if isinstance(error, ssl.SSLCertVerificationError):
                raise NotAllowed(f"{connection.who}: its certificate is not trusted: {error.verify_message}") from None
            if isinstance(error, TimeoutError):
                raise Unreachable(f"{connection.who} does not answer") from None
            if isinstance(error, OSError):
                raise Unreachable(f"{connection.who}: {error.strerror or error}") from None
            if isinstance(error, Unanswered):
                raise Unreachable(f"{error}; is its protocol the one of `security.protocol`?") from None
            raise
        self._all = {other for other in self._all if other.open} | {connection}
        return connection

    async def _begin(self, connection: Connection, address: Address) -> None:
        security = self.settings.security
        context = None if security.tls is None else context_of(security.tls)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: connection, address.host, address.port, ssl=context)
        await connection.ask_versions(__version__)
        if security.sasl is not None:
            await authenticate(connection, security.sasl)
