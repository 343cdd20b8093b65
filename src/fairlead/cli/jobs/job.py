"""`fairlead job …`: commands that touch many topics, while a cluster carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from fairlead.cli.calls import call
from fairlead.cli.generate import OwnOption, add_noun, command_function
from fairlead.cli.jobs.following import check_all_taken, ended, print_topics
from fairlead.cli.output import print_json, print_rows
from fairlead.client.admin import Envelope
from fairlead.client.catalog import BY_PATH
from fairlead.client.command import Command


class _Awaited(Envelope):
    """Of a job that was waited for, in the place of the command that began it: its outcome is this command's."""


def _show(command: Command, params: Mapping[str, Any], cluster: str | None, wait: bool = False) -> Envelope:
    if not wait:
        return call(command, params, cluster)
    answer = ended(params["id"], cluster)
    return _Awaited(answer.data, answer.envelope)


def _print_job(answer: Envelope, command: Command, as_json: bool) -> None:
    row = answer.first
    if as_json:
        print_json(answer.envelope)
    else:
        print_rows([{name: value for name, value in row.items() if name not in ("refusals", "lacks")}], ())
        if row["refusals"] or row["lacks"]:
            print()
            print_topics(row)
    if isinstance(answer, _Awaited):
        check_all_taken(row, "")


app = typer.Typer(no_args_is_help=True, help="Commands that touch many topics, while the cluster carries them out.")
show = command_function(
    BY_PATH["/rest/job/show"],
    _show,
    _print_job,
    (OwnOption("wait", bool, "wait until the job has ended, and show how far it is (ours)"),),
)
add_noun(app, ("job",), {"show": show})
