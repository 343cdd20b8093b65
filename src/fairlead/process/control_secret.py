"""The secret by which a server knows its own replicator: 32 random bytes, new at each start, in a file of the data
directory that only the server's user may read.

Tasks are told the file's name and read it at each connection: the secret itself stands in no option, plan or log line.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from fairlead.model.errors import InvalidValue, StorageUnavailable

FILE: Final = "control-secret"
"""In the data directory."""
HEADER: Final = "x-fairlead-control"
"""Of the request that opens a control connection."""


def write(folder: Path, secret: bytes) -> str:
    """Put a server's secret into its data directory; answers what the header has to say.

    Raises:
        StorageUnavailable: it cannot be written.
    """
    fresh = folder / f"{FILE}.new"
    try:
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secret.hex())
        fresh.replace(folder / FILE)
    except OSError as error:
        raise StorageUnavailable(f"{folder / FILE}: {error.strerror}") from error
    return secret.hex()


def read(file: Path) -> str:
    """What the header has to say.

    Raises:
        InvalidValue: the file cannot be read, or holds no secret.
    """
    try:
        secret = file.read_text()
        if len(bytes.fromhex(secret)):
            return secret
    except OSError as error:
        raise InvalidValue(f"{file}: {error.strerror}; give the server's data directory by --data") from error
    except ValueError:
        pass
    raise InvalidValue(f"{file} holds no secret of a server")
