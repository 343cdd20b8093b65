"""`fairlead stream topic takeover`: shows what is known of the lost owner and what would be missing, asks, then waits
while the cluster works through the topics."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from fairlead.cli.calls import call
from fairlead.cli.generate import OwnOption, command_function, confirm
from fairlead.cli.jobs.following import NOWAIT, ended, home_of, print_outcome, topics_of, unchanged
from fairlead.client.admin import Envelope
from fairlead.client.booleans import TRUE
from fairlead.client.catalog import BY_PATH
from fairlead.client.command import Command
from fairlead.model.ages import age
from fairlead.model.errors import FairleadError
from fairlead.model.shown import shown

_TAKEOVER = BY_PATH["/rest/stream/topic/takeover"]


def _takeover(
    command: Command, params: Mapping[str, Any], cluster: str | None, nowait: bool = False, yes: bool = False
) -> Envelope:
    """
    Raises:
        FairleadError: nothing can be taken over.
    """
    named = {"topic": topics_of(params["topic"])} if "topic" in params else {}
    wanted = {**params, **named}
    command.parse(wanted)
    home = home_of(params, cluster)
    if yes or str(params.get("dryrun", "")).lower() in TRUE:
        return _done(command, wanted, cluster, home, nowait)
    plan = _done(command, {**wanted, "dryrun": "true"}, cluster, home).first
    if not plan["changed"]:
        _say_refusals(plan)
        raise FairleadError("no topic can be taken over" if plan["refused"] else "these topics are owned here already")
    _say(_counted(plan, "would be taken over"))
    _say_refusals(plan)
    confirm(
        f"Take over {plan['changed']:,} topics of {params['path']}? What their owner wrote and nobody brought here is "
        "no part of them any more; when it returns, topics of diverged records keep it.",
        yes,
    )
    answer = call(command, wanted, cluster)
    return answer if nowait else ended(str(answer.first["id"]), home)


def _done(
    command: Command, params: Mapping[str, Any], cluster: str | None, home: str | None, nowait: bool = False
) -> Envelope:
    """Say what is known, and wait until all topics had their turn."""
    answer = call(command, params, cluster)
    _say_outlook(answer.first)
    return answer if nowait else ended(str(answer.first["id"]), home)


def _say_outlook(row: Mapping[str, Any]) -> None:
    for owner in row.get("owners", ()):
        _say(f"{owner['owner']} owns {owner['topics']:,} topics here; {_heard(owner)}")
    for each in row.get("neighbours", ()):
        _say(f"asked {each['neighbour']}: {'it answers' if each['answers'] else each['error']}")


def _heard(owner: Mapping[str, Any]) -> str:
    if not owner["lastheard"]:
        return "nothing came from it since this server started"
    lacking = owner["lackingcommits"]
    more = f", when its log had {lacking:,} commits that have not come" if lacking else ""
    return f"it was last heard {age(owner['lastheardseconds'])} ago{more}"


def _say_refusals(row: Mapping[str, Any]) -> None:
    for each in row["refusals"]:
        _say(f"{each['topic']} stays: {each['reason']}")


def _say(line: str) -> None:
    """On standard error, so that standard output has only results."""
    print(shown(line), file=sys.stderr, flush=True)


def _counted(row: Mapping[str, Any], what: str) -> str:
    brought = "would come" if "would" in what else "came"
    records = f", {row['brought']:,} records {brought} from neighbours first" if row["brought"] else ""
    same = unchanged(row)
    already = f", {same:,} are owned here already" if same else ""
    lacking = f", {row['lacking']:,} of them without all that is elsewhere" if row["lacking"] else ""
    return f"{row['changed']:,} topics {what}{lacking}{records}{already}"


def _print(answer: Envelope, command: Command, as_json: bool) -> None:
    print_outcome(answer, as_json, _said, " and stay as they are")


def _said(row: Mapping[str, Any]) -> str:
    return _counted(row, "would be taken over" if row["dry_run"] == "true" else "taken over")


takeover = command_function(_TAKEOVER, _takeover, _print, (NOWAIT, OwnOption("yes", bool, "do not ask")))
