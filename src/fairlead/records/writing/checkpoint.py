"""Spark's own notes of a streaming query, as far as what is written depends on them.

Spark notes in the checkpoint what a batch ranges over (`offsets/<batch>`) before it runs it, and the query's id in
`metadata`. On a local disk it syncs neither. If a power failure took the first and left our notes, which say that the
batch is settled or done, the query would plan the batch anew, over more records perhaps, and we would leave these out.
If it took the id, the query would be another one and write all of its batches again.

Always true: before a batch is settled or done, Spark's notes of it are as durable as ours will be.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fairlead.records.writing.staging import writing_into
from fairlead.storage.files import sync_directory


def sync_notes(checkpoint: Path, batch: int) -> None:
    """Make durable what Spark has noted of a batch, with its checksums.

    Raises:
        StorageUnavailable
    """
    offsets = checkpoint / "offsets"
    with writing_into(checkpoint):
        for folder, name in ((checkpoint, "metadata"), (offsets, str(batch))):
            for file in (folder / name, folder / f".{name}.crc"):
                with suppress(FileNotFoundError), file.open("rb") as found:
                    os.fsync(found.fileno())
        for folder in (offsets, checkpoint, checkpoint.parent):
            with suppress(FileNotFoundError, PermissionError):  # one may enter a parent that one may not list
                sync_directory(str(folder))
