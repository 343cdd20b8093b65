"""The address of the packets that Spark carries for links: JSON of what the sink must know to reach a destination.

The packets of a grant are encoded frames. For one that is `referred` the bytes are those of a `ReferredFrame`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from fairlead.model.conversation import read
from fairlead.model.strict_json import JsonForm
from fairlead.streamlog.values import GrantRun
from fairlead.wire.apply import ApplyHello
from fairlead.wire.link_protocol import StreamPlace


@dataclass(frozen=True, slots=True)
class FrameAddress:
    """Where the frames of one grant go, and as whose."""

    hello: ApplyHello
    destination: StreamPlace

    @property
    def link(self) -> bytes:
        return self.hello.link

    @property
    def run(self) -> GrantRun:
        return self.hello.run

    @property
    def shard(self) -> int:
        """Of the source."""
        return self.hello.shard

    def to_json(self) -> str:
        """The text that travels in the column `address`."""
        return _ADDRESS.write(self).decode()


_ADDRESS = JsonForm(FrameAddress, unknown="forbid")


@lru_cache(maxsize=256)
def parse_address(text: str) -> FrameAddress:
    """The inverse of `FrameAddress.to_json`."""
    return read(text, _ADDRESS)
