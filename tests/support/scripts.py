"""The commands that `pip install` brings, as pip makes them of pyproject.toml."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def install_scripts(folder: Path) -> Path:
    """Write all of them into a folder, for the path of a test's processes."""
    folder.mkdir(exist_ok=True)
    for name, place in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"].items():
        module, _, function = place.partition(":")
        script = folder / name
        script.write_text(f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n")
        script.chmod(0o755)
    return folder
