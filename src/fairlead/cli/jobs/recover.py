"""`fairlead stream recover`: shows the plan, or waits while the cluster brings back what a stream lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairlead.cli.calls import call
from fairlead.cli.generate import OwnOption, command_function, confirm
from fairlead.cli.jobs.following import NOWAIT, ended, home_of, print_outcome
from fairlead.cli.output import print_json, print_rows
from fairlead.client.admin import Envelope
from fairlead.client.booleans import TRUE
from fairlead.client.catalog import BY_PATH
from fairlead.client.command import Command

_PLAN_COLUMNS: Final = ("topic", "partition", "end", "common", "diverged", "brought", "from")


def _recover(
    command: Command, params: Mapping[str, Any], cluster: str | None, nowait: bool = False, yes: bool = False
) -> Envelope:
    """
    Raises:
        BadRequest: nobody can be asked whether to go on.
    """
    if str(params.get("dryrun", "")).lower() not in TRUE:
        confirm(
            f"Recover {params['path']}? What was written here since the backup and differs elsewhere goes into other "
            "topics; -dryrun shows what.",
            yes,
        )
    answer = call(command, params, cluster)
    if nowait or "id" not in answer.first:
        return answer
    return ended(str(answer.first["id"]), home_of(params, cluster))


def _print(answer: Envelope, command: Command, as_json: bool) -> None:
    """What was done, or would be.

    Raises:
        PartlyRefused: some topics were refused.
    """
    if "id" in answer.first:
        print_outcome(answer, as_json, _said, " and stay as they are")
    elif as_json:
        print_json(answer.envelope)
    elif answer.data:
        print_rows(answer.data, _PLAN_COLUMNS)
    else:
        print("nothing is to be cut or brought; the command without -dryrun lets the stream be written again")


def _said(row: Mapping[str, Any]) -> str:
    done = f"{row['changed']:,} topics were recovered, {row['brought']:,} records brought"
    return f"{done}; {row['path']} is written again"


recover = command_function(
    BY_PATH["/rest/stream/recover"], _recover, _print, (NOWAIT, OwnOption("yes", bool, "do not ask"))
)
