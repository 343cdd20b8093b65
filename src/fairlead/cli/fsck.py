"""`fairlead fsck --data DIR`: check every object of a data directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.data import data_option
from fairlead.model.errors import Damaged, InvalidValue
from fairlead.process.interrupts import ending_at_once

if TYPE_CHECKING:
    from fairlead.storage.interface import Storage


def fsck(
    data: Annotated[Path, data_option("data directory of a cluster")],
    set_aside: Annotated[
        list[str] | None,
        typer.Option("--set-aside", metavar="NAME", help="go on without this damaged object; the server is stopped"),
    ] = None,
) -> None:
    """Check every object of a data directory; exit code 1 on damage, with a line for each damaged object."""
    with ending_at_once():
        from fairlead.storage import names
        from fairlead.storage.local import ReadOnlyLocalStorage
        from fairlead.streamlog.fsck import check_all

    with _named(data):
        storage = ReadOnlyLocalStorage(data)
        if not any((data / name).exists() for name in (names.CLUSTER, names.META)):
            raise InvalidValue(f"{data} is not the data directory of a cluster: it has no {names.CLUSTER}")
    if set_aside:
        _set_aside(data, set_aside)
    with _named(data):
        problems = [f"{error.name}: {error.why}" for error in (*storage.check(), *_check_cluster_id(storage))]
        problems += map(str, check_all(storage))
    for problem in problems:
        print(problem)
    if problems:
        raise typer.Exit(1)
    print(f"{data}: no damage")


@contextmanager
def _named(data: Path) -> Iterator[None]:
    """A directory that cannot be read, as by another user than the server's, is said to be that one."""
    try:
        yield
    except OSError as error:
        raise InvalidValue(f"{error.filename or data}: {error.strerror}") from error


def _set_aside(data: Path, wanted: list[str]) -> None:
    """Let the logs go on without these objects, and say what is lost. What counts is what counts for the server, so the
    packs are taken over as by a start."""
    from fairlead.model.clock import SystemClock, SystemRandomness
    from fairlead.storage.local import LocalStorage
    from fairlead.storage.lock import lock_directory
    from fairlead.storage.packs import PackSettings
    from fairlead.streamlog.set_aside.cure import set_aside

    lock = lock_directory(data)
    try:
        storage = LocalStorage(data, packs=PackSettings())
        with closing(storage):
            for line in set_aside(storage, wanted, SystemRandomness(), SystemClock().wall_ms()):
                print(line)
    finally:
        lock.close()


def _check_cluster_id(storage: Storage) -> list[Damaged]:
    """The cluster's log says too whose it is: otherwise the server does not start."""
    from fairlead.storage import identity, names
    from fairlead.streamlog.objects import manifest as manifests

    try:
        found = identity.decode(storage.get(names.CLUSTER))
        own = manifests.newest(storage, names.META)
    except Damaged:
        return []  # which is told elsewhere
    if own is not None and own.log != found.id:
        return [identity.of_another(found, own.log)]
    return []
