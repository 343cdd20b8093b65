"""`fairlead fsck --data DIR`: check every object of a data directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.model.errors import InvalidValue
from fairlead.process.interrupts import ending_at_once

if TYPE_CHECKING:
    from fairlead.storage.local import ReadOnlyLocalStorage


def fsck(data: Annotated[Path, typer.Option("--data", help="data directory of a cluster")]) -> None:
    """Check every object of a data directory; exit code 1 on damage, with a line for each damaged object."""
    with ending_at_once():
        from fairlead.storage.local import ReadOnlyLocalStorage
        from fairlead.streamlog.fsck import check_all

    storage = ReadOnlyLocalStorage(data)
    problems = [*_check_identity(storage), *map(str, check_all(storage))]
    for problem in problems:
        print(problem)
    if problems:
        raise typer.Exit(1)
    print(f"{data}: no damage")


def _check_identity(storage: ReadOnlyLocalStorage) -> list[str]:
    """The cluster's own description: without it the server does not start."""
    from fairlead.model.errors import Damaged
    from fairlead.storage import identity, names
    from fairlead.streamlog.objects import manifest as manifests

    if storage.size(names.CLUSTER) is None:
        if next(iter(storage.list(f"{names.META}/")), None) is None:
            raise InvalidValue(f"{storage.root} is not the data directory of a cluster: it has no {names.CLUSTER}")
        return [f"{names.CLUSTER}: missing"]
    try:
        found = identity.decode(storage.get(names.CLUSTER))
        own = manifests.newest(storage, names.META)
    except Damaged as error:
        return [f"{error.name}: {error.why}"]
    if own is not None and own.log != found.id:
        return [f"{names.CLUSTER}: says that this is {found.id.hex()}, and {names.META}/ is of {own.log.hex()}"]
    return []
