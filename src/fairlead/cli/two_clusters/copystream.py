"""`fairlead copystream -src … -dst …`: start a copy and wait for it. The copy goes on if the command is ended.

Both clusters are the caller's: the command lets the destination be copied into, and makes it if it is not there. Where
they are not, the owner of the destination says `copystream allow`, and this command needs no right there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import typer

from fairlead.cli.calls import call
from fairlead.cli.generate import add_noun, noun_function
from fairlead.cli.output import print_error
from fairlead.cli.progress import Progress
from fairlead.cli.two_clusters.steps import CREATE, global_path, settings_of
from fairlead.client.admin import Envelope
from fairlead.client.catalog import BY_PATH
from fairlead.client.command import Command
from fairlead.model.errors import AlreadyExists, FairleadError, NotAllowed, NotFound, UnknownStream, Unreachable
from fairlead.model.names import parse_stream_path

POLL_SECONDS = 0.5
"""Between two questions how far the copy is."""
START = BY_PATH["/rest/copystream/start"]
_STATUS = BY_PATH["/rest/copystream/status"]
_ALLOW = BY_PATH["/rest/copystream/allow"]
_REMOVE = BY_PATH["/rest/copystream/remove"]


def _copy(command: Command, params: Mapping[str, Any], cluster: str | None) -> Envelope:
    _start(command, params, cluster)
    answer = ended(params, cluster)
    if answer.first["conflicts"]:
        raise FairleadError(f"the copy to {params['dst']} has ended; {set_aside(answer.first['conflicts'])}")
    return answer


def set_aside(partitions: int) -> str:
    """What a copy has left out, in words."""
    return f"{partitions:,} partitions were set aside: topics there have their names, or other records"


def ended(params: Mapping[str, Any], cluster: str | None) -> Envelope:
    """Ask how far a copy is until it has ended: the source's replicator does the work, not this process. A server that
    is away meanwhile is waited for too: the copy goes on.

    Raises:
        FairleadError: it has stopped.
    """
    chosen = {name: params[name] for name in ("src", "dst")}
    progress, percent = Progress(), 0
    try:
        while True:
            try:
                answer = call(_STATUS, chosen, cluster)
                row = answer.first
                if row["state"] != "copying":
                    break
                percent, error = row["copyTableCompletionPercentage"], row["error"]
                progress.show(percent, error or f"{row['recordsCopied']:,} records copied", error)
            except Unreachable as away:
                progress.show(percent, str(away), str(away))
            time.sleep(POLL_SECONDS)
    finally:
        progress.end()
    if row["state"] == "failed":
        raise FairleadError(f"the copy to {params['dst']} has stopped: {row['error']}")
    return answer


def _start(command: Command, params: Mapping[str, Any], cluster: str | None) -> None:
    permission = _permission(command, params, cluster)
    _allow(permission)
    try:
        call(command, params, cluster)
    except FairleadError as error:
        with suppress(NotFound):
            call(_REMOVE, permission)
        if not isinstance(error, AlreadyExists):
            raise
        print_error(f"{error}; this command waits for its end")


def _permission(command: Command, params: Mapping[str, Any], cluster: str | None) -> dict[str, str]:
    """The permission that the copy needs, with global paths; one without a cluster is of the source's."""
    given = command.parse(params)
    source = global_path(given["src"], cluster)
    return {"path": str(global_path(given["dst"], source.cluster)), "from": str(source)}


def _allow(permission: Mapping[str, str]) -> None:
    """Let the destination be copied into; it is made first if it is not there. Whoever may not allow it there needs the
    permission of somebody who may."""
    with suppress(NotAllowed):
        try:
            call(_ALLOW, permission)
        except UnknownStream:
            settings = settings_of(parse_stream_path(permission["from"]), "shards")
            call(CREATE, {"path": permission["path"], **settings})
            call(_ALLOW, permission)


app = typer.Typer()
app.callback(invoke_without_command=True)(noun_function(START, _copy))
add_noun(app, ("copystream",), but=("start", "status"))
