"""`fairlead stream topic transfer`: waits while the cluster hands topics over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.cli.calls import call
from fairlead.cli.generate import command_function
from fairlead.cli.jobs.following import NOWAIT, ended, home_of, print_outcome, topics_of, unchanged
from fairlead.client.admin import Envelope
from fairlead.client.catalog import BY_PATH
from fairlead.client.command import Command


def _transfer(command: Command, params: Mapping[str, Any], cluster: str | None, nowait: bool = False) -> Envelope:
    answer = call(command, {**params, "topic": topics_of(params["topic"])}, cluster)
    return answer if nowait else ended(str(answer.first["id"]), home_of(params, cluster))


def _print(answer: Envelope, command: Command, as_json: bool) -> None:
    print_outcome(answer, as_json, _said, " and stay as they are")


def _said(row: Mapping[str, Any]) -> str:
    what = "would be handed over" if row.get("dry_run") == "true" else "handed over"
    same = unchanged(row)
    already = f", {same:,} were there already" if same else ""
    return f"{row['changed']:,} topics {what} to {row['to']}{already}"


transfer = command_function(BY_PATH["/rest/stream/topic/transfer"], _transfer, _print, (NOWAIT,))
