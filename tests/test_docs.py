"""The guides name every command, option, route, metric and setting, with the defaults they have."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from fairlead.broker.traffic import Traffic
from fairlead.cli.program import tree
from fairlead.client.catalog import COMMANDS
from fairlead.model.settings import explain
from fairlead.records import options as reading
from fairlead.records.columns import ALL
from fairlead.records.writing import options as writing
from fairlead.records.writing.routing import COLUMNS
from tests.gateway.desk import desks

GUIDES = Path(__file__).parents[1] / "docs" / "guides"
COMMON = {"--help", "--json", "--cluster", "--yes"}
"""Explained once, at the top of the guide."""


def leaves(command: Any, words: tuple[str, ...] = ("fairlead",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    found = getattr(command, "commands", None)
    if not found:
        yield words, command
        return
    if len(words) > 1 and getattr(command, "invoke_without_command", False):
        yield words, command
    for name, child in found.items():
        yield from leaves(child, (*words, name))


LEAVES = list(leaves(tree()))


def section_of(words: tuple[str, ...]) -> str:
    """The part of the guide below a command's heading."""
    text = (GUIDES / "commands.md").read_text()
    heading = f"### {' '.join(words)}\n"
    assert heading in text, f"no heading for {' '.join(words)}"
    return text.split(heading)[1].split("\n## ")[0].split("\n### ")[0]


@pytest.mark.parametrize(("words", "command"), LEAVES, ids=[" ".join(words) for words, _ in LEAVES])
def test_every_command_and_option_is_explained(words: tuple[str, ...], command: Any) -> None:
    """Under a heading of its own in commands.md; `server` has the options of `up`."""
    section = section_of(("fairlead", "up") if words[-1] == "server" else words)
    names = {name for param in command.params for name in param.opts if name.startswith("--")}
    missing = {name for name in names - COMMON if f"`{name}`" not in section and f"`{name[1:]}`" not in section}
    missing = {name for name in missing if f" {name[1:]} " not in section and f"{name} " not in section}
    assert not missing


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.path)
def test_every_route_is_named(command: Any) -> None:
    """With its method, in rest.md."""
    assert f"`{command.method} {command.path}`" in (GUIDES / "rest.md").read_text()


@pytest.mark.parametrize(("name", "default", "what"), explain(), ids=[name for name, _, _ in explain()])
def test_every_setting_is_listed_with_its_default(name: str, default: object, what: str) -> None:
    """In settings.md."""
    shown = f"`{default}`" if isinstance(default, str) else f"{default:,}".removesuffix(".0")
    assert f"| `{name}` | {shown} | {what} |" in (GUIDES / "settings.md").read_text()


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("Options", reading.NAMES),
        ("Columns", ALL),
        ("Writing records", {*writing.NAMES} - {"queryName"}),  # which Spark adds by itself
        ("Writing records", COLUMNS),
    ],
)
def test_every_option_and_column_of_spark_is_explained(section: str, names: Collection[str]) -> None:
    """In a table of its section in spark.md."""
    text = (GUIDES / "spark.md").read_text().split(f"\n## {section}\n")[1].split("\n### ")[0].split("\n## ")[0]
    first = " ".join(line.split("|")[1] for line in text.splitlines() if line.startswith("|"))
    assert not [name for name in names if f"`{name}`" not in first]


async def test_every_metric_is_listed() -> None:
    """In operations.md; with a link, since some are a link's."""
    async with desks("sanfrancisco") as (desk,):
        await desk.post("stream/create", path="/s")
        await desk.post("stream/create", path="/r")
        await desk.post("stream/replica/add", path="/s", replica="/r", paused=True)
        lines = (await desk.http.get(f"{desk.url}/metrics")).text.splitlines()
    names = {line.split()[2] for line in lines if line.startswith("# HELP ")}
    names |= {f"fairlead_kafka_{each.name}_total" for each in fields(Traffic)}
    text = (GUIDES / "operations.md").read_text()
    assert not sorted(name for name in names if f"`{name}`" not in text)
