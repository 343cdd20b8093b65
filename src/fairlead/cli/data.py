"""`--data DIR`, as all commands that open a data directory read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from fairlead.model.errors import InvalidValue


def data_option(what: str) -> Any:
    """The option, for an annotation."""
    return typer.Option("--data", metavar="DIR", parser=_directory, help=what)


def _directory(text: str) -> Path:
    """A directory that has been named: `Path` takes an empty text, as `--data "$DIR"` is where DIR is not set, for the
    one that the command runs in."""
    if not text:
        raise InvalidValue("--data is empty; name a directory")
    return Path(text)
