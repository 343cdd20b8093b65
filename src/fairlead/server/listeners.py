"""The Kafka listeners of a server as the admin interface sees them: started, remembered, ended."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import structlog

from fairlead.broker.server import KafkaServer
from fairlead.cluster.cluster import Cluster
from fairlead.listening.addresses import callable_host, why
from fairlead.model.addresses import Address
from fairlead.model.errors import FairleadError, InvalidValue, NotFound

_log = structlog.get_logger(__name__)


class KafkaListeners:
    """One for the whole cluster, and one for each exposed stream, on the same host."""

    def __init__(self, kafka: KafkaServer, cluster: Cluster, address: Address, advertise: Address | None) -> None:
        self._kafka = kafka
        self._cluster = cluster
        self._address = address
        self._advertise = advertise

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Start the main listener, then those of exposed streams; one of these that fails is logged and left out."""
        await self._kafka.start(*self._address, sockets=sockets)
        for stream_id, port in self._cluster.listeners().items():
            stream = self._cluster.stream_by_id(stream_id)
            if stream is not None:
                await self._start_again(stream.path, port)

    async def close(self) -> None:
        """Stop all listeners and close their connections."""
        await self._kafka.close()

    @property
    def main_address(self) -> str:
        return str(self._advertise) if self._advertise else self._shown(self._kafka.address)

    @property
    def connections(self) -> int:
        return len(self._kafka.connections)

    def counters(self) -> Mapping[str, float]:
        return asdict(self._kafka.traffic)

    def memory(self) -> Mapping[str, int]:
        kafka = self._kafka
        return {
            "requests": kafka.memory.used_bytes,
            "groups": kafka.groups.size_bytes,
            "fetches": kafka.remembered.used_bytes,
        }

    def addresses(self) -> Mapping[str, str]:
        return {path: self._shown(address) for path, address in self._kafka.addresses().items() if path is not None}

    async def expose(self, path: str, port: int) -> str:
        """Listen for one stream and remember it.

        Raises:
            AlreadyExists: it is exposed already.
            InvalidValue: the port is taken or not allowed.
        """
        try:
            address = await self._kafka.start(self._address.host, port, path)
        except OSError as error:
            raise InvalidValue(f"-port {port}: {why(error)}; choose another, or 0 for any") from error
        try:
            await self._cluster.set_listener(path, address[1])
        except FairleadError:
            await self._kafka.stop(path)
            raise
        return self._shown(address)

    async def conceal(self, path: str) -> None:
        """End a stream's listener and forget it.

        Raises:
            NotFound: it has none.
        """
        stream = self._cluster.stream(path)
        if stream.id not in self._cluster.listeners():
            raise NotFound(f"stream {path} is not exposed; `fairlead stream expose -path {path} -port PORT` does it")
        await self._kafka.stop(path)
        await self._cluster.set_listener(path, None)

    async def _start_again(self, path: str, port: int) -> None:
        try:
            await self._kafka.start(self._address.host, port, path)
        except OSError as error:
            _log.error("a stream's listener was not started", stream=path, port=port, why=why(error))

    def _shown(self, address: tuple[str, int]) -> str:
        return str(Address(self._advertise.host if self._advertise else callable_host(address[0]), address[1]))
