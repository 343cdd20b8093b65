"""Which version of each API the client speaks, and which of them a broker takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead.model.errors import BadRequest
from fairlead.protocol import client_fetch, client_produce
from fairlead.protocol.messages import api_name

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
LIST_GROUPS: Final = 16
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
INIT_PRODUCER_ID: Final = 22
OFFSET_FOR_LEADER_EPOCH: Final = 23
ADD_PARTITIONS_TO_TXN: Final = 24
END_TXN: Final = 26
DESCRIBE_ACLS: Final = 29
CREATE_ACLS: Final = 30
DESCRIBE_CONFIGS: Final = 32
SASL_AUTHENTICATE: Final = 36
CREATE_PARTITIONS: Final = 37
DESCRIBE_PRODUCERS: Final = 61
INCREMENTAL_ALTER_CONFIGS: Final = 44

SPOKEN: Final[Mapping[int, range]] = {
    PRODUCE: client_produce.VERSIONS,
    FETCH: client_fetch.VERSIONS,
    LIST_OFFSETS: range(2, 8),
    METADATA: range(4, 13),
    OFFSET_COMMIT: range(2, 9),
    OFFSET_FETCH: range(2, 9),
    FIND_COORDINATOR: range(1, 4),
    LIST_GROUPS: range(6),
    SASL_HANDSHAKE: range(1, 2),
    API_VERSIONS: range(4),
    CREATE_TOPICS: range(2, 8),
    INIT_PRODUCER_ID: range(6),
    OFFSET_FOR_LEADER_EPOCH: range(2, 5),
    ADD_PARTITIONS_TO_TXN: range(4),
    END_TXN: range(6),
    DESCRIBE_ACLS: range(1, 4),
    CREATE_ACLS: range(1, 4),
    DESCRIBE_CONFIGS: range(1, 5),
    SASL_AUTHENTICATE: range(3),
    CREATE_PARTITIONS: range(4),
    DESCRIBE_PRODUCERS: range(1),
    INCREMENTAL_ALTER_CONFIGS: range(2),
}
"""By API key. Kafka 0.11 has the lowest of them, 4.1 the highest; later forms say nothing that the client needs."""

FIRST_ASKED: Final = SPOKEN[API_VERSIONS][-1]
"""The version of ApiVersions that is tried first; a broker without it answers in version 0 with those that it has."""


_NONE: Final[Mapping[str, int]] = {}


class Versions:
    """What one broker takes."""

    def __init__(self, taken: Mapping[int, range], who: str, features: Mapping[str, int] = _NONE) -> None:
        self.features = features
        """What the cluster has agreed upon (KIP-584): the highest version of each."""
        self._who = who
        self._chosen = {key: _chosen(spoken, taken.get(key, range(0))) for key, spoken in SPOKEN.items()}

    def of(self, api_key: int) -> int:
        """The highest version that both sides speak.

        Raises:
            BadRequest: there is none.
        """
        version = self._chosen[api_key]
        if version is None:
            spoken = SPOKEN[api_key]
            raise BadRequest(
                f"{self._who} takes no version of {api_name(api_key)} from {spoken[0]} to {spoken[-1]}; "
                "Kafka brokers do from 0.11 on"
            )
        return version

    def takes(self, api_key: int) -> bool:
        """Whether there is a version that both sides speak."""
        return self._chosen[api_key] is not None


def _chosen(spoken: range, taken: range) -> int | None:
    both = range(max(spoken.start, taken.start), min(spoken.stop, taken.stop))
    return both[-1] if both else None
