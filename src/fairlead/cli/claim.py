"""`fairlead stream topic claim`: waits while the cluster appends what diverged topics keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.cli.calls import call
from fairlead.cli.generate import OwnOption, command_function
from fairlead.cli.output import print_json, print_rows
from fairlead.cli.transfer import ended, topics_of
from fairlead.client.admin import Envelope
from fairlead.client.catalog import BY_PATH
from fairlead.client.command import Command
from fairlead.model.errors import FairleadError
from fairlead.model.names import parse_stream_path

_CLAIM = BY_PATH["/rest/stream/topic/claim"]


def _claim(command: Command, params: Mapping[str, Any], cluster: str | None, nowait: bool = False) -> Envelope:
    answer = call(command, {**params, "topic": topics_of(params["topic"])}, cluster)
    # A job has no path, so its cluster is asked by its name.
    home = parse_stream_path(params["path"]).cluster or cluster
    return answer if nowait else ended(str(answer.first["id"]), home)


def _print(answer: Envelope, command: Command, as_json: bool) -> None:
    """What a claim has brought.

    Raises:
        FairleadError: some topics were refused.
    """
    row = answer.first
    if as_json:
        print_json(answer.envelope)
    elif row["state"] == "running":
        print(f"job {row['id']} is running; `fairlead job show -id {row['id']}` shows how far it is")
    else:
        what = "would be claimed" if row["dry_run"] == "true" else "claimed"
        same = row["done"] - row["changed"] - row["refused"]
        already = f"; {same:,} have nothing that is not claimed" if same else ""
        print(f"{row['brought']:,} records of {row['changed']:,} topics {what}{already}")
        if row["refusals"]:
            print_rows(row["refusals"], ("topic", "reason"))
    if row["refused"]:
        raise FairleadError(f"{row['refused']:,} of {row['topics']:,} topics were refused")


claim = command_function(
    _CLAIM,
    _claim,
    _print,
    (OwnOption("nowait", bool, "begin, and do not wait until all topics had their turn (ours)"),),
)
