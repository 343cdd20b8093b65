"""What a cluster says when it passes writes on: in the path of the request that leaves HTTP (`upgrade.py`).

    GET /gateway/forward?protocol=5&source=<id of the copy's stream>&stream=<id of the owner's stream>

Behind it Kafka's requests and answers follow, of one kind: Produce in the version `PRODUCE_VERSION`, in which a topic's
id is its incarnation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from fairlead.model.errors import InvalidValue
from fairlead.wire.link_protocol import PROTOCOL
from fairlead.wire.upgrade import FORWARD_PATH

PRODUCE_VERSION: Final = 13
_FIELDS: Final = ("protocol", "source", "stream")


@dataclass(frozen=True, slots=True)
class ForwardHello:
    """From which stream writes come, and for which."""

    source: bytes
    stream: bytes

    @property
    def target(self) -> str:
        """The path with its query."""
        return f"{FORWARD_PATH}?protocol={PROTOCOL}&source={self.source.hex()}&stream={self.stream.hex()}"


def hello_of(query: bytes) -> ForwardHello:
    """The inverse of `ForwardHello.target`, of what follows the question mark.

    Raises:
        InvalidValue: it is not that, or of another version.
    """
    found = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=len(_FIELDS) + 1))
    if set(found) != set(_FIELDS):
        raise InvalidValue(f"{FORWARD_PATH} takes {', '.join(_FIELDS)}")
    if found["protocol"] != str(PROTOCOL):
        raise InvalidValue(f"protocol {found['protocol'][:20]}: this gateway speaks {PROTOCOL}")
    try:
        hello = ForwardHello(bytes.fromhex(found["source"]), bytes.fromhex(found["stream"]))
    except ValueError:
        raise InvalidValue(f"{FORWARD_PATH}: source and stream are ids of streams") from None
    if len(hello.source) != 16 or len(hello.stream) != 16:
        raise InvalidValue(f"{FORWARD_PATH}: source and stream are ids of streams")
    return hello
