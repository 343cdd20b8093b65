"""`stream topic takeover`: what it shows before it asks, and what it says in the end."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.jobs import takeover as module
from fairlead.client.admin import Envelope
from fairlead.client.command import Command
from tests.cli.desk import CommandLine

LINE = "stream topic takeover -path /s -topic .*"


def row(*, dry: bool, changed: int = 2, refused: int = 0, brought: int = 0, **more: Any) -> dict[str, Any]:
    """Of `job show`."""
    counts = {"topics": 3, "done": 3, "changed": changed, "refused": refused, "brought": brought, "percent": 100}
    said = {"waitsfor": "", "error": "", "refusals": [], "lacking": 0, "lacks": [], "dry_run": str(dry).lower()}
    return {"id": "0a", "kind": "takeover", "state": "done", **counts, **said, **more}


OUTLOOK: dict[str, Any] = {
    "owners": [
        {"owner": "/mapr/sf/s", "topics": 2, "lastheard": 1, "lastheardseconds": 90, "lackingcommits": 4},
        {"owner": "/mapr/far/s", "topics": 1, "lastheard": 0, "lastheardseconds": 0, "lackingcommits": 0},
    ],
    "neighbours": [
        {"neighbour": "/mapr/la/s", "answers": True, "error": ""},
        {"neighbour": "/mapr/sf/s", "answers": False, "error": "no gateway answers: refused"},
    ],
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """The calls; each begins a job that has ended, and a dry run finds that one topic stays."""
    calls: list[Mapping[str, Any]] = []

    def call(command: Command, params: Mapping[str, Any], cluster: str | None) -> Envelope:
        calls.append(params)
        return Envelope(({**row(dry=False), **OUTLOOK},), {})

    def ended(id: str, cluster: str | None) -> Envelope:
        if calls[-1].get("dryrun") != "true":
            return Envelope((row(dry=False, brought=7),), {})
        stays = [{"topic": "crane", "reason": "its owner answers"}]
        return Envelope((row(dry=True, refused=1, brought=7, refusals=stays),), {})

    monkeypatch.setattr(module, "call", call)
    monkeypatch.setattr(module, "ended", ended)
    return calls


def test_what_is_known_is_shown_before_anything_is_asked(fairlead: CommandLine, asked: list[Mapping[str, Any]]) -> None:
    """When the owner was last heard, what of it has not come, who answers, what would be brought and what would stay.
    Where nobody can answer, nothing is taken over."""
    done = fairlead(LINE)
    assert done.code == 1
    said = done.err.splitlines()
    assert said[:6] == [
        "/mapr/sf/s owns 2 topics here; it was last heard 90 s ago, when its log had 4 commits that have not come",
        "/mapr/far/s owns 1 topics here; nothing came from it since this server started",
        "asked /mapr/la/s: it answers",
        "asked /mapr/sf/s: no gateway answers: refused",
        "2 topics would be taken over, 7 records would come from neighbours first",
        "crane stays: its owner answers",
    ]
    assert said[6].startswith("fairlead: Take over 2 topics of /s?")
    assert "add --yes to go on without asking" in said[6]
    assert [params.get("dryrun") for params in asked] == ["true"]


class Terminal(io.StringIO):
    """Somebody is there, and types this."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("typed", ["n\n", "\n", "No\n", "yeah\nq\nn\n", "yeah\n", ""])
def test_without_a_yes_nothing_is_taken_over(
    fairlead: CommandLine, asked: list[Mapping[str, Any]], monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    """What is neither yes nor no is asked again; where the input ends, or nothing is typed but Enter, it is no."""
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    done = fairlead(f"{LINE} -json")
    assert (done.code, done.out) == (130, "")
    assert done.err.endswith("fairlead: stopped\n")
    assert done.err.count("Take over 2 topics of /s?") == max(typed.count("\n"), 1) + (typed == "yeah\n")
    assert [params.get("dryrun") for params in asked] == ["true"]


def test_with_a_yes_what_was_shown_is_taken_over(
    fairlead: CommandLine, asked: list[Mapping[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question stands beside the results, which may go to a program."""
    monkeypatch.setattr("sys.stdin", Terminal("what?\nYes\n"))
    done = fairlead(LINE)
    assert done.code == 0
    assert done.out.startswith("2 topics taken over, 7 records came from neighbours first")
    assert done.err.count("no part of them any more") == 2
    assert [params.get("dryrun") for params in asked] == ["true", None]


def test_with_yes_the_topics_are_taken_over_at_once(fairlead: CommandLine, asked: list[Mapping[str, Any]]) -> None:
    """In one call; what is known is shown all the same."""
    done = fairlead(f"{LINE} --yes")
    assert (done.code, done.out) == (
        0,
        "2 topics taken over, 7 records came from neighbours first, 1 are owned here already\n",
    )
    assert done.err.splitlines()[2] == "asked /mapr/la/s: it answers"
    assert [params.get("dryrun") for params in asked] == [None]
    assert fairlead(f"{LINE} --yes --nowait").out.startswith("2 topics taken over")


def test_by_force_it_says_what_each_topic_was_taken_over_without(
    fairlead: CommandLine, asked: list[Mapping[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever forces it has said so before: no refusal, and the exit code is 0."""
    lack = {"topic": "box", "what": "2 records of partition 0 of /mapr/la/s could not be brought"}
    forced = Envelope((row(dry=False, lacking=1, lacks=[lack]),), {})
    monkeypatch.setattr(module, "ended", lambda id, cluster: forced)
    done = fairlead(f"{LINE} -force --yes")
    assert done.code == 0
    first, _, *listed = done.out.splitlines()
    assert first.startswith("2 topics taken over, 1 of them without all that is elsewhere")
    assert listed[0].split(maxsplit=1) == list(lack.values())


def test_a_dry_run_asks_nobody(fairlead: CommandLine, asked: list[Mapping[str, Any]]) -> None:
    """It changes nothing. What would stay makes the exit code 1."""
    done = fairlead(f"{LINE} -dryrun")
    assert done.code == 1
    assert done.out.splitlines()[0] == "2 topics would be taken over, 7 records would come from neighbours first"
    assert "its owner answers" in done.out
    assert done.err.endswith("fairlead: 1 of 3 topics were refused and stay as they are\n")


def test_a_takeover_of_what_is_owned_here_says_so(fairlead: CommandLine, tmp_path: Path) -> None:
    """By a real server: names come from a file; a stream that has no neighbours is alone, not lost."""
    fairlead.ok("stream create -path /alone")
    fairlead.ok("stream topic create -path /alone -topic box")
    names = tmp_path / "names"
    names.write_text("box\n")
    done = fairlead(f"stream topic takeover -path /alone -topic @{names}")
    assert done.code == 1
    assert done.err.endswith("fairlead: these topics are owned here already\n")

    fairlead.refused(
        "stream topic takeover -path /alone --yes", "give -topic, or -from with the cluster that is lost, or both"
    )
    fairlead.refused(
        "stream topic takeover -path /alone -from tokyo --yes",
        "it owns no topic of /alone, by what is known here; its topics are owned by /mapr/sanfrancisco/alone",
    )
