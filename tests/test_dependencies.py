"""What is imported is declared in pyproject.toml, and what is declared is imported, or has its reason here."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
OURS = {path.name for path in [*ROOT.iterdir(), *(ROOT / "src").iterdir()] if path.is_dir()}

NEVER_IMPORTED = {
    "cramjam": "aiokafka packs snappy, lz4 and zstd by it",
    "import-linter": "a tool of `make check`",
    "mypy": "a tool of `make check`",
    "pandas": "PySpark's transformWithState asks for it",
    "protobuf": "PySpark's transformWithState talks to its state by it",
    "pytest-asyncio": "pytest finds it by itself",
    "pytest-timeout": "pytest finds it by itself",
    "python-snappy": "kafka-python packs snappy by it",
    "ruff": "a tool of `make check`",
    "zstandard": "kafka-python packs zstd by it",
}
"""Declared for development, though no module of ours imports it."""


def plain(name: str) -> str:
    """A distribution's name as every spelling of it is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def modules(file: Path) -> Iterator[str]:
    """Every module that a file imports, also within a function."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield node.module


APART = {"quixstreams"}
"""In an environment of its own, see scripts/interop-setup."""


def imported(*folders: str) -> set[str]:
    """Distributions of other people that the modules of these folders import."""
    files = (file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    tops = {module.partition(".")[0] for file in files for module in modules(file)}
    of_module = packages_distributions()
    others = tops - sys.stdlib_module_names - OURS
    return {plain(name) for top in others for name in of_module.get(top, [top])}


def named(requirements: Iterable[str]) -> set[str]:
    """The distributions of a list of requirements."""
    return {plain(re.split(r"[\[<>=~!; ]", requirement)[0]) for requirement in requirements}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NEEDED = named(PROJECT["project"]["dependencies"])
DEV = named(PROJECT["dependency-groups"]["dev"])
CHARTS = named(PROJECT["dependency-groups"]["charts"])


def test_the_program_imports_what_it_declares_and_nothing_else() -> None:
    """A package that only another one brings may leave with it."""
    assert imported("src") == NEEDED


def test_tests_and_examples_import_what_they_declare_and_nothing_else() -> None:
    """Tools and what a client packs by have their reasons above."""
    found = imported("tests", "examples")
    assert found - NEEDED - DEV - CHARTS == APART
    assert DEV - found == NEVER_IMPORTED.keys()


def test_benchmarks_import_what_they_declare_and_nothing_else() -> None:
    """Beside what the program has, and the clients of tests."""
    found = imported("benchmarks")
    assert found - NEEDED - DEV - CHARTS == set()
    assert CHARTS - found == set()


def test_every_dependency_has_its_reason_on_the_page_of_decisions() -> None:
    """What it is for, and what it stands in for."""
    page = {plain(word) for word in re.findall(r"[\w-]+", (ROOT / "docs/decisions/0005-dependencies.md").read_text())}
    assert NEEDED - page == set()
    assert DEV - page == set()
