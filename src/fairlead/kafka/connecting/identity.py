"""Who we are and whom we trust, as of now: what the settings come from is read again for each connection."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, NamedTuple

from fairlead.kafka.configuration.settings import ClientSettings, Security
from fairlead.kafka.connecting.connection import Connection
from fairlead.kafka.connecting.sasl import Introduction, introduction
from fairlead.kafka.connecting.tls import TlsContexts
from fairlead.kafka.connecting.tokens import Tokens
from fairlead.model.addresses import Address
from fairlead.model.errors import InvalidValue, NotAllowed, TryAgain, Unreachable

_QUIET_SECONDS: Final = 10.0
"""How long nothing is said to a broker that has refused it: accounts are locked after some wrong passwords."""


class Beginning(NamedTuple):
    """How a connection begins."""

    context: ssl.SSLContext | None
    said: Introduction | None

    async def introduce(self, connection: Connection) -> float:
        """Say who we are; after how many seconds to say it again, 0: never. Raises: as `Introduction.say`."""
        return 0.0 if self.said is None else await self.said.say(connection)


class _Refusal(NamedTuple):
    of: Security
    until: float
    why: str


class Identity:
    """Of a client towards all brokers of a cluster.

    The first refusal of all is told as it is. Once a broker has let us in, a refusal may pass: passwords are changed in
    two places, one after the other. It is waited for, and told.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._security = settings.security
        self._contexts = TlsContexts()
        self._tokens = Tokens()
        self._known = False
        self._refusals: dict[Address, _Refusal] = {}

    async def towards(self, address: Address) -> Beginning:
        """How to begin a connection.

        Raises:
            InvalidValue: what it takes cannot be read; NotAllowed: we are given no token.
            TryAgain: the same, where a broker has let us in before; or it was refused a moment ago.
        """
        try:
            security = self._security = await self._now()
            self._check_quiet(address, security)
            context = None if security.tls is None else await self._contexts.of(security.tls)
            if security.sasl is None:
                return Beginning(context, None)
            return Beginning(context, await introduction(security.sasl, address.host, self._tokens))
        except (InvalidValue, NotAllowed) as error:
            if self._known:
                raise TryAgain(str(error)) from None
            raise

    def let_in(self, address: Address) -> None:
        """A broker believes us."""
        self._known = True
        self._refusals.pop(address, None)

    def refused(self, address: Address, error: NotAllowed) -> Unreachable | NotAllowed:
        """A broker does not; the error to raise."""
        self._tokens.drop()
        if not self._known:
            return error
        until = asyncio.get_running_loop().time() + _QUIET_SECONDS
        self._refusals[address] = _Refusal(self._security, until, str(error))
        return Unreachable(str(error))

    async def _now(self) -> Security:
        read = self._settings.security_now
        return self._settings.security if read is None else await asyncio.to_thread(read)

    def _check_quiet(self, address: Address, security: Security) -> None:
        refusal = self._refusals.get(address)
        if refusal is None or refusal.of != security or asyncio.get_running_loop().time() >= refusal.until:
            return
        raise Unreachable(refusal.why)
