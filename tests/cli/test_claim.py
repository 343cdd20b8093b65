"""`stream topic claim`: what it says."""

from __future__ import annotations

from pathlib import Path

from tests.cli.desk import CommandLine

LINE = "stream topic claim -path /tails -topic"


def test_a_claim_says_what_came_and_what_was_refused(fairlead: CommandLine, tmp_path: Path) -> None:
    """A refused topic makes the exit code 1; names may come from a file, and nobody need wait."""
    fairlead.ok("stream create -path /tails")
    fairlead.ok("stream topic create -path /tails -topic box")
    fairlead.ok("stream topic create -path /tails -topic crane")
    done = fairlead(f"{LINE} box -dryrun")
    assert (done.code, done.out.splitlines()[0]) == (1, "0 records of 0 topics would be claimed")
    assert "box is no diverged or pending topic: it keeps nothing for another one" in done.out
    assert done.err.endswith("fairlead: 1 of 1 topics were refused\n")
    names = tmp_path / "names"
    names.write_text("box\ncrane\n")
    done = fairlead(f"{LINE} @{names}")
    assert (done.code, done.err.endswith("fairlead: 2 of 2 topics were refused\n")) == (1, True)
    fairlead.refused(f"{LINE} .*", "matches no diverged or pending topic of /tails")
    fairlead.refused(f"{LINE} box -into none", "topic none does not exist")
    running = fairlead(f"{LINE} box --nowait").out
    assert "shows how far it is" in running
    (job,) = [row for row in fairlead.ok("job list -json").json["data"] if row["path"] == "/tails"][-1:]
    assert (job["kind"], job["topics"]) == ("claim", 1)
