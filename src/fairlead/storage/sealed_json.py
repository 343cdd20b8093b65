"""JSON objects that end with a checksum of all bytes before it: manifests, claims, the register of packs,
`cluster.json`."""

from __future__ import annotations

from typing import Final

import crc32c

_LENGTH: Final = len(b',"checksum":"00000000"}')


def sealed(text: bytes) -> bytes:
    """The JSON object with its checksum as the last field."""
    return text[:-1] + _checksum(text[:-1])


def check_seal(data: bytes) -> None:
    """Check the checksum. Raises: ValueError, it does not fit."""
    if not data.endswith(_checksum(data[:-_LENGTH])):
        raise ValueError("the checksum does not fit")


def _checksum(text: bytes) -> bytes:
    return b',"checksum":"%08x"}' % crc32c.crc32c(text)
