"""The link protocol's version, and how a stream is named in it (`docs/formats/link-protocol.md`)."""

from __future__ import annotations

from dataclasses import dataclass

PROTOCOL = 5
"""Version of the link protocol that a source speaks."""
PROTOCOL_OLDEST = 5
"""A gateway takes the versions from this one to `PROTOCOL`."""


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """A stream somewhere: by name for people, by id for everything else."""

    cluster: str
    path: str
    stream: bytes
    urls: tuple[str, ...] = ()
    """HTTP addresses of the cluster's gateways, for example `http://127.0.0.1:7660`."""
