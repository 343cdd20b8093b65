"""`stream topic transfer` and `job`: what they say, and how they wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.jobs import following, job, transfer
from fairlead.client.admin import Envelope
from fairlead.client.command import Command
from fairlead.model.errors import Unreachable
from tests.cli.desk import CommandLine

WAIT = "stream topic transfer -path /s -topic .* -to ny --yes"


@contextmanager
def neighbours(fairlead: CommandLine, name: str) -> Iterator[None]:
    """Two streams of this cluster, each a replica of the other, until the block ends; nobody carries."""
    one, two = f"/{name}1", f"/{name}2"
    for source, replica in ((one, two), (two, one)):
        fairlead.ok(f"stream create -path {source}")
        fairlead.ok(f"stream upstream add -path {source} -upstream {replica}")
    for source, replica in ((one, two), (two, one)):
        fairlead.ok(f"stream replica add -path {source} -replica {replica}")
    yield
    # A link that nobody carries would make the cluster degraded for the tests that come.
    for source, replica in ((one, two), (two, one)):
        fairlead.ok(f"stream replica remove -path {source} -replica {replica} --yes")


def test_a_transfer_says_what_went_and_what_stays(fairlead: CommandLine, tmp_path: Path) -> None:
    """A refused topic is listed with its reason and makes the exit code 1; names may come from a file."""
    with neighbours(fairlead, "cargo"):
        for topic in ("box-1", "box-2", "crane"):
            fairlead.ok(f"stream topic create -path /cargo1 -topic {topic}")
        line = "stream topic transfer -path /cargo1 -to sanfrancisco --yes -topic"
        done = fairlead(f"{line} box-[0-9] -dryrun -oneway -json")
        assert done.json["data"][0]["refused"] == 2, "one document, that a program can read"
        done = fairlead(f"{line.replace(' --yes', '')} box-[0-9] -dryrun -oneway")
        assert (done.code, done.out.splitlines()[0]) == (
            1,
            "0 topics would be handed over to /mapr/sanfrancisco/cargo2",
        )
        assert "the replica does not have it yet (-force hands over all the same)" in done.out
        assert done.err.endswith("fairlead: 2 of 2 topics were refused and stay as they are\n")
        assert fairlead.ok("stream topic list -path /cargo1 -owner /mapr/sanfrancisco/cargo2").out == "(none)\n"
        names = tmp_path / "names"
        names.write_text("box-1\nbox-2\n")
        done = fairlead(f"{line} @{names} -force -oneway")
        assert done.out == "2 topics handed over to /mapr/sanfrancisco/cargo2\n"
        again = fairlead(f"{line} box-1 -force")
        assert again.out == "0 topics handed over to /mapr/sanfrancisco/cargo2, 1 were there already\n"
        rows = fairlead.ok("stream topic list -path /cargo1 -owner /mapr/sanfrancisco/cargo2 -json").json["data"]
        assert [row["topic"] for row in rows] == ["box-1", "box-2"]
        fairlead.refused("stream topic delete -path /cargo1 -topic box-1 --yes", "owned by /mapr/sanfrancisco/cargo2")


def test_a_job_is_listed_shown_and_cancelled(fairlead: CommandLine) -> None:
    """With what it was told to do; one that has ended stays as it is."""
    with neighbours(fairlead, "jobs"):
        fairlead.ok("stream topic create -path /jobs1 -topic box")
        line = "stream topic transfer -path /jobs1 -topic box -to sanfrancisco -force -oneway --yes --nowait -json"
        (begun,) = fairlead.ok(line).json["data"]
        shown = fairlead(f"job show -id {begun['id']} --wait").out
        assert "/mapr/sanfrancisco/jobs2" in shown
        assert "done" in shown
        assert begun["id"] in fairlead.ok("job list").out
        (ended,) = fairlead.ok(f"job cancel -id {begun['id']} --yes -json").json["data"]
        assert ended["state"] == "done"
        fairlead.refused("job show -id 00", "job 00 does not exist; `fairlead job list` shows those there are")
        fairlead.refused("job show -id x", "-id 'x': give the id of a job")
        running = fairlead.ok(line.replace(" -json", "")).out
        assert "shows how far it is" in running


def test_what_cannot_be_meant_is_refused_before_anything_is_asked(fairlead: CommandLine, tmp_path: Path) -> None:
    """Files that are not there, empty, or longer than a call may be."""
    line = "stream topic transfer -path /s -to ny --yes -topic"
    fairlead.refused(f"{line} @/nosuch", "-topic @/nosuch: the file cannot be read: No such file or directory\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\n")
    fairlead.refused(f"{line} @{tmp_path}/bytes", "the file is no UTF-8 text; give a name in each line\n")
    (tmp_path / "empty").write_text("\n")
    fairlead.refused(f"{line} @{tmp_path}/empty", "the file names no topic")
    (tmp_path / "long").write_text("t\n" * 500_000)
    fairlead.refused(f"{line} @{tmp_path}/long", "longer than 900,000 bytes; split it")
    (tmp_path / "expression").write_text("box-[12]\n")
    fairlead.refused(f"{line} @{tmp_path}/expression", "box-[12]")
    fairlead.refused("stream topic transfer -path /s -to ny -topic t", "Hand the topics t of /s over to ny?")


def row(state: str, done: int, waits: str = "", **more: Any) -> dict[str, Any]:
    """Of `job show`."""
    counts = {"topics": 50_000, "done": done, "changed": done, "refused": 0, "percent": done // 500}
    said = {"waitsfor": waits, "to": "/mapr/ny/s", "dry_run": "false", "error": "", "refusals": [], "lacks": []}
    return {"id": "0a", "kind": "transfer", "state": state, **counts, **said, **more}


@pytest.fixture
def answers(fairlead: CommandLine, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any] | type[BaseException]]:
    """What `job show` says each time; the transfer itself goes well."""
    found: list[dict[str, Any] | type[BaseException]] = []
    rows: Iterator[dict[str, Any] | type[BaseException]] = iter(found)

    def call(command: Command, params: Mapping[str, Any], cluster: str | None) -> Envelope:
        if command.verb == "transfer":
            return Envelope((row("running", 0),), {})
        answer = next(rows)
        if isinstance(answer, type):
            raise answer
        return Envelope((answer,), {})

    monkeypatch.setattr(transfer, "call", call)
    for module in (following, job):
        monkeypatch.setattr(module, "call", call)
    monkeypatch.setattr(following, "POLL_SECONDS", 0.0)
    return found


def test_without_a_terminal_a_line_is_written_at_each_step(fairlead: CommandLine, answers: list[Any]) -> None:
    """And what the job waits for, once."""
    answers += [row("running", done) for done in range(0, 10_000, 500)]
    answers += [row("running", 10_000, "no gateway answers")] * 3
    answers += [row("running", 40_000), row("done", 50_000)]
    done = fairlead(WAIT)
    assert (done.code, done.out) == (0, "50,000 topics handed over to /mapr/ny/s\n")
    assert done.err.splitlines() == [
        "  0 %  0 of 50,000 topics",
        " 10 %  5,000 of 50,000 topics",
        " 20 %  waits: no gateway answers",
        " 80 %  40,000 of 50,000 topics",
    ]


def test_ctrl_c_leaves_the_job_running_and_says_so(fairlead: CommandLine, answers: list[Any]) -> None:
    """With the commands that show it and end it."""
    answers += [row("running", 500), KeyboardInterrupt]
    done = fairlead(WAIT)
    assert done.code == 130
    assert "stopped; the job goes on: `fairlead job show -id 0a` shows how far it is" in done.err
    assert "`fairlead job cancel -id 0a` ends it" in done.err


def test_a_server_that_is_gone_leaves_the_job_which_is_named(fairlead: CommandLine, answers: list[Any]) -> None:
    """It goes on with the server's next start."""
    answers += [row("running", 500), Unreachable]
    done = fairlead(WAIT)
    assert done.code == 1
    assert "The job goes on once the server is back: `fairlead job show -id 0a` shows how far it is" in done.err


def test_a_job_that_failed_says_after_how_many_topics(fairlead: CommandLine, answers: list[Any]) -> None:
    """Those have gone."""
    answers += [row("failed", 1500, error="stream /s was deleted")]
    fairlead.refused(WAIT, "the transfer has stopped after 1,500 topics: stream /s was deleted")


def test_a_job_that_was_cancelled_is_not_said_to_be_done(fairlead: CommandLine, answers: list[Any]) -> None:
    """Somebody ended it while this command waited: most topics did not have their turn."""
    answers += [row("running", 500), row("cancelled", 1500)]
    said = "the transfer was cancelled after 1,500 of 50,000 topics; what it has done stays: `fairlead job show -id 0a`"
    done = fairlead(WAIT)
    assert (done.code, done.out) == (1, "")
    assert said in done.err


def test_who_waits_for_a_job_is_told_as_who_began_it(fairlead: CommandLine, answers: list[Any]) -> None:
    """Its outcome decides the exit code. To look at a job that has ended is no failure."""
    refused = row("done", 50_000, refused=3, refusals=[{"topic": "box", "reason": "it is owned elsewhere"}])
    answers += [row("running", 500), refused, refused, row("done", 50_000)]
    done = fairlead("job show -id 0a --wait")
    assert (done.code, "it is owned elsewhere" in done.out) == (1, True)
    assert done.err.endswith("fairlead: 3 of 50,000 topics were refused\n")
    assert "it is owned elsewhere" in fairlead.ok("job show -id 0a").out
    fairlead.ok("job show -id 0a --wait")
