"""`stream recover`: what it says."""

from __future__ import annotations

import pytest

from fairlead.cli.jobs import following, recover
from fairlead.client.admin import Envelope
from tests.cli.desk import CommandLine
from tests.cli.test_transfer import neighbours


def test_a_recovery_shows_its_plan_and_says_what_it_did(fairlead: CommandLine) -> None:
    """Here nothing is missing. Without anybody who could have it, it is refused."""
    fairlead.ok("stream create -path /restored")
    fairlead.refused("stream recover -path /restored --yes", "has no replica and no upstream of its own")
    with neighbours(fairlead, "recover"):
        fairlead.ok("stream topic create -path /recover1 -topic box")
        line = "stream recover -path /recover1"
        fairlead.refused(line, "Recover /recover1?")
        told = fairlead.ok(f"{line} -dryrun -force")
        assert told.out.startswith("nothing is to be cut or brought")
        done = fairlead(f"{line} --yes -force")
        assert done.out == "0 topics were recovered, 0 records brought; /recover1 is written again\n"
        assert fairlead.ok("stream info -path /recover1 -json").json["data"][0]["rolledback"] is False
        begun = fairlead.ok(f"{line} --yes --nowait -force").out
        assert "shows how far it is" in begun


def test_a_recovery_that_was_cancelled_is_not_said_to_be_done(
    fairlead: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream lacks the rest; it was said to be written again."""
    counts = {"topics": 9, "done": 2, "changed": 2, "refused": 0, "brought": 7, "percent": 22}
    row = {"id": "0a", "kind": "recover", "state": "cancelled", "path": "/s", **counts}
    for module in (following, recover):
        monkeypatch.setattr(module, "call", lambda *_: Envelope((row,), {}))
    fairlead.refused("stream recover -path /s --yes", "the recover was cancelled after 2 of 9 topics; what it has done")
