"""The brokers of a cluster: where they are, and connections to them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping

from fairlead.kafka.configuration.settings import ClientSettings
from fairlead.kafka.connecting.connection import Connection
from fairlead.kafka.connecting.entering import Entering
from fairlead.kafka.errors import PASSING
from fairlead.kafka.values import NO_NODE
from fairlead.model.addresses import Address
from fairlead.model.errors import FairleadError, Unreachable


class Brokers:
    """Opens connections: a shared one to each broker for questions, others for whoever asks."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._nodes: dict[int, Address] = {}
        self._controller = NO_NODE
        self._shared: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}
        self._unreachable: set[Address] = set()
        """Where no connection could be opened when it was tried last."""
        self._given: Address | None = None
        """By `any` or `another`."""
        self._all: set[Connection] = set()
        self._entering = Entering(settings)
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
        """A shared connection to any broker: the one that was given last, while it is open. Raises: as `another`."""
        found = None if self._given is None else self._shared.get(self._given)
        return found if found is not None and found.open else await self.another()

    async def another(self) -> Connection:
        """A shared connection to another broker than was given last, if another can be had.

        Raises:
            Unreachable: none of them can be reached; NotAllowed.
        """
        failures: dict[Address, str] = {}
        for address in self._in_turn():
            self._given = address
            try:
                return await self._share(address)
            except PASSING as error:
                failures[address] = str(error)
        raise Unreachable(_together(failures))

    def _in_turn(self) -> list[Address]:
        """Where to ask, that which was given last at the end; before others where it worked when it was tried last, and
        the brokers themselves before what leads to them."""
        nodes = self._nodes.values()
        addresses = list(dict.fromkeys([*nodes, *self.settings.bootstrap]))
        behind = addresses.index(self._given) + 1 if self._given in addresses else 0
        turned = addresses[behind:] + addresses[:behind]
        return sorted(turned, key=lambda address: (address in self._unreachable, address not in nodes))

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
        try:
            connection, again_seconds = await self._entering.connection(address)
        except PASSING:
            self._unreachable.add(address)
            raise
        self._unreachable.discard(address)
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
                seconds = await self._entering.introduce_again(connection, address)
            except FairleadError:
                connection.close()  # the next one says why


def _together(failures: Mapping[Address, str]) -> str:
    """What brokers failed at, in one line: of those that failed at the same, their names and that."""
    names: dict[str, list[str]] = {}
    for address, why in failures.items():
        names.setdefault(why.removeprefix(f"broker {address}: "), []).append(str(address))
    said = (f"{'brokers' if len(of) > 1 else 'broker'} {', '.join(of)}: {why}" for why, of in names.items())
    return "; ".join(said)


async def _ended_within(connection: Connection, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await connection.ended.wait()
    except TimeoutError:
        return False
