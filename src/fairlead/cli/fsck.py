"""`fairlead fsck --data DIR`: check every object of a data directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fairlead.model.errors import InvalidValue


def fsck(data: Annotated[Path, typer.Option("--data", help="data directory of a cluster")]) -> None:
    """Check every object of a data directory; exit code 1 on damage, with a line for each damaged object."""
    from fairlead.storage.local import ReadOnlyLocalStorage
    from fairlead.streamlog.fsck import check_all

    if not (data / "cluster.json").is_file():
        raise InvalidValue(f"{data} is not the data directory of a cluster: it has no cluster.json")
    problems = [*_check_identity(data / "cluster.json"), *map(str, check_all(ReadOnlyLocalStorage(data)))]
    for problem in problems:
        print(problem)
    if problems:
        raise typer.Exit(1)
    print(f"{data}: no damage")


def _check_identity(file: Path) -> list[str]:
    """The cluster's own description: without it the server does not start."""
    try:
        found = json.loads(file.read_bytes())
        wrong = {"version", "name", "id"} - found.keys()
    except (ValueError, AttributeError) as error:
        return [f"{file.name}: not the description of a cluster ({error})"]
    return [f"{file.name}: has no {name}" for name in sorted(wrong)]
