"""How the pictures of demos are titled and written."""

from __future__ import annotations

from pathlib import Path

from matplotlib import pyplot
from matplotlib.figure import Figure

_DPI = 110


def save(figure: Figure, title: str, file: Path) -> None:
    """Give it its title and write it as a PNG."""
    figure.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=_DPI, metadata={"Software": None})
    pyplot.close(figure)
