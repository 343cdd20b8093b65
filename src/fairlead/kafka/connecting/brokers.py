"""The brokers of a cluster: where they are, and connections to them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Coroutine, Mapping

from fairlead import __version__
from fairlead.kafka.configuration.settings import ClientSettings
from fairlead.kafka.connecting.connection import Connection
from fairlead.kafka.connecting.identity import Beginning, Identity
from fairlead.kafka.connecting.tls import refusal_of
from fairlead.kafka.errors import PASSING
from fairlead.kafka.values import NO_NODE
from fairlead.model.addresses import Address
from fairlead.model.errors import FairleadError, Unanswered, Unreachable
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
        self._identity = Identity(settings)
        self._tasks: set[asyncio.Task[None]] = set()

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
            Unreachable, Unanswered, Malformed
            NotAllowed: it does not let us in, or is not who it says, and no broker of the cluster has let us in before.
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
            if connection.open:
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
        for task in self._tasks:
            task.cancel()
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
            if found is None or not found.open:
                found = self._shared[address] = await self._open(address)
            return found

    async def _open(self, address: Address) -> Connection:
        settings = self.settings
        beginning = await self._identity.towards(address)
        connection = Connection(address, settings.client_id, settings.request_timeout_ms / 1000, self._scratch)
        try:
            async with asyncio.timeout(settings.connect_timeout_ms / 1000):
                again_seconds = await _begin(connection, address, beginning)
        except BaseException as error:
            connection.close()
            refusal = refusal_of(error, connection.who)
            if refusal is not None:
                raise self._identity.refused(address, refusal) from None
            raise _told(connection.who, error) from None
        self._identity.let_in(address)
        self._all = {other for other in self._all if other.open} | {connection}
        if again_seconds:
            self._keep(self._stay_known(connection, address, again_seconds))
        return connection

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="kafka-stay-known")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _stay_known(self, connection: Connection, address: Address, seconds: float) -> None:
        """Say again who we are, before the broker would end the connection (KIP-368)."""
        while seconds and not await _ended_within(connection, seconds):
            try:
                beginning = await self._identity.towards(address)
                seconds = await beginning.introduce(connection)
            except FairleadError:
                connection.close()  # the next one says why


async def _begin(connection: Connection, address: Address, beginning: Beginning) -> float:
    """After how many seconds to say again who we are; 0: never."""
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: connection, address.host, address.port, ssl=beginning.context)
    await connection.ask_versions(__version__)
    return await beginning.introduce(connection)


async def _ended_within(connection: Connection, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await connection.ended.wait()
    except TimeoutError:
        return False


def _told(who: str, error: BaseException) -> BaseException:
    """Why there is no connection."""
    if isinstance(error, TimeoutError):
        return Unreachable(f"{who} does not answer")
    if isinstance(error, OSError):
        return Unreachable(f"{who}: {error.strerror or error}")
    if isinstance(error, Unanswered):
        return Unreachable(f"{error}; is its protocol the one of `security.protocol`?")
    return error
