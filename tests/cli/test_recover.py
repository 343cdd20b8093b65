"""`stream recover`: what it says."""

from __future__ import annotations

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
