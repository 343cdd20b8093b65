"""`fairlead copystream -src … -dst …`: start a copy and wait for it. The copy goes on if the command is ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from fairlead.cli.calls import call
from fairlead.cli.generate import command_function
from fairlead.cli.output import print_error
from fairlead.client.admin import Envelope
from fairlead.client.catalog import BY_PATH
from fairlead.client.command import Command
from fairlead.model.errors import AlreadyExists, FairleadError

POLL_SECONDS = 0.5
"""Between two questions how far the copy is."""
_START = BY_PATH["/rest/copystream/start"]
_STATUS = BY_PATH["/rest/copystream/status"]


def _copy(command: Command, params: Mapping[str, Any], cluster: str | None) -> Envelope:
    """Start, then ask how far it is until it has ended: the source's replicator does the work, not this process."""
    try:
        call(command, params, cluster)
    except AlreadyExists as error:
        print_error(f"{error}; this command waits for its end")
    chosen = {name: params[name] for name in ("src", "dst")}
    try:
        answer = call(_STATUS, chosen, cluster)
        while answer.first["state"] == "copying":
            _show_progress(answer.first)
            time.sleep(POLL_SECONDS)
            answer = call(_STATUS, chosen, cluster)
    finally:
        _end_progress()
    if answer.first["state"] == "failed":
        raise FairleadError(f"the copy to {params['dst']} has stopped: {answer.first['error']}")
    return answer


def _show_progress(row: Mapping[str, Any]) -> None:
    if sys.stderr.isatty():
        done = f"{row['copyTableCompletionPercentage']:>3} %  {row['recordsCopied']:,} records"
        sys.stderr.write(f"\r{done}  {row['error']}\x1b[K")
        sys.stderr.flush()


def _end_progress() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")


copystream = command_function(_START, _copy)
