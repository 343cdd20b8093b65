"""`docs/guides/topologies.md`: its commands are commands, and every topology that is tested is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.client.catalog import COMMANDS
from tests.cases.topology import TOPOLOGIES

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "topologies.md").read_text()
LINES = sorted({line for line in GUIDE.replace("\\\n", "").splitlines() if line.startswith("fairlead ")})
HEADINGS = {line.removeprefix("## ").lower() for line in GUIDE.splitlines() if line.startswith("## ")}


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_the_guide_is_one(line: str) -> None:
    """Its options are known and their values are taken."""
    words = line.split()[1:]
    first = next(at for at, word in enumerate(words) if word.startswith("-"))
    command = next(each for each in COMMANDS if [*each.noun, each.verb] == words[:first])
    names, values = words[first::2], words[first + 1 :: 2]
    command.parse({name[1:]: value for name, value in zip(names, values, strict=True)})


def test_every_plain_topology_has_a_picture_and_commands() -> None:
    """Those of the tests with one word for it in the original's pages."""
    plain = {"one-to-many", "many-to-one", "multi-master", "chain", "tree", "ring", "full mesh"}
    assert plain <= TOPOLOGIES.keys()
    assert {name.replace("-to-", " to ") for name in plain} <= HEADINGS
