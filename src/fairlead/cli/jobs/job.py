"""`fairlead job …`: commands that touch many topics, while a cluster carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from fairlead.cli.calls import call
from fairlead.cli.generate import OwnOption, add_noun, command_function
from fairlead.cli.jobs.following import ended
from fairlead.cli.output import print_json, print_rows
from fairlead.client.admin import Envelope
from fairlead.client.catalog import BY_PATH
from fairlead.client.command import Command


def _show(command: Command, params: Mapping[str, Any], cluster: str | None, wait: bool = False) -> Envelope:
    return ended(params["id"], cluster) if wait else call(command, params, cluster)


def _print_job(answer: Envelope, command: Command, as_json: bool) -> None:
    if as_json:
        print_json(answer.envelope)
        return
    row = answer.first
    print_rows([{name: value for name, value in row.items() if name != "refusals"}], ())
    if row["refusals"]:
        print()
        print_rows(row["refusals"], ("topic", "reason"))


app = typer.Typer(no_args_is_help=True, help="Commands that touch many topics, while the cluster carries them out.")
show = command_function(
    BY_PATH["/rest/job/show"],
    _show,
    _print_job,
    (OwnOption("wait", bool, "wait until the job has ended, and show how far it is (ours)"),),
)
add_noun(app, ("job",), {"show": show})
