"""`fairlead stream recover`: shows the plan, or waits while the cluster brings back what a stream lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairlead.cli.calls import call
from fairlead.cli.generate import OwnOption, command_function, confirm
from fairlead.cli.jobs.following import NOWAIT, ended, home_of
from fairlead.cli.output import print_json, print_rows
from fairlead.client.admin import Envelope
from fairlead.client.booleans import TRUE
from fairlead.client.catalog import BY_PATH
from fairlead.client.command import Command
from fairlead.model.errors import PartlyRefused

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
    rows = list(answer.data)
    if nowait or not rows or "id" not in rows[0]:
        return answer
    return ended(str(answer.first["id"]), home_of(params, cluster))


def _print(answer: Envelope, command: Command, as_json: bool) -> None:
    """What was done, or would be.

    Raises:
        PartlyRefused: some topics were refused.
    """
    rows = list(answer.data)
    if as_json:
        print_json(answer.envelope)
    elif not rows:
        print("nothing is to be cut or brought; the command without -dryrun lets the stream be written again")
    elif "id" not in rows[0]:
        print_rows(rows, _PLAN_COLUMNS)
    elif rows[0]["state"] == "running":
        print(f"job {rows[0]['id']} is running; `fairlead job show -id {rows[0]['id']}` shows how far it is")
    else:
        row = rows[0]
        said = f"{row['changed']:,} topics were recovered, {row['brought']:,} records brought"
        print(f"{said}; {row['path']} is written again")
        if rows[0]["refusals"]:
            print_rows(rows[0]["refusals"], ("topic", "reason"))
    if rows and rows[0].get("refused"):
        raise PartlyRefused(f"{rows[0]['refused']:,} topics were refused and stay as they are")


recover = command_function(
    BY_PATH["/rest/stream/recover"], _recover, _print, (NOWAIT, OwnOption("yes", bool, "do not ask"))
)
