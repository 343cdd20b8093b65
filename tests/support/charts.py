"""Pictures of demos, where what draws them is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

DRAWS = find_spec("matplotlib") is not None
"""`make test` installs it, as do demos with a chart and the bench."""


def chart_options(file: Path) -> list[str]:
    """Options of a demo: its picture goes there, or it draws none."""
    return ["--chart", str(file)] if DRAWS else ["--no-chart"]


def drawn(file: Path) -> bool:
    """Whether a picture is there; also where none could be drawn."""
    return not DRAWS or file.read_bytes().startswith(b"\x89PNG")
