"""What a command does at two clusters: the command line asks both. A server sends no call on to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairlead.cli.calls import call, chosen_cluster
from fairlead.cli.generate import command_function
from fairlead.client.admin import Envelope
from fairlead.client.catalog import BY_PATH
from fairlead.client.command import Command
from fairlead.model.envelope import code_of, to_error
from fairlead.model.errors import FairleadError
from fairlead.model.names import StreamPath

COPIED_SETTINGS = (
    "ttl",
    "autocreate",
    "defaultpartitions",
    "compression",
    "defaulttimestamptype",
    "pidexpirysecs",
    "forwardwrites",
    "pending",
    "conflicts",
)
"""Those that a stream has from another; who may do what there is the other cluster's own affair."""
CREATE = BY_PATH["/rest/stream/create"]
DELETE = BY_PATH["/rest/stream/delete"]
INFO = BY_PATH["/rest/stream/info"]


def global_path(path: StreamPath, cluster: str | None) -> StreamPath:
    """A path with its cluster, which is the chosen one where it names none."""
    return StreamPath(path.path, path.cluster or chosen_cluster(cluster).name)


def settings_of(path: StreamPath, *more: str) -> dict[str, Any]:
    """The settings of a stream, as `stream create` takes them."""
    row = call(INFO, {"path": str(path)}).first
    return {name: row[name] for name in (*COPIED_SETTINGS, *more)}


class Steps:
    """Steps of one command, each of which can be taken back."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], object]]] = []

    @property
    def done(self) -> list[str]:
        """What was done, a line for each step."""
        return [what for what, _ in self._steps]

    def did(self, what: str, undo: Callable[[], object]) -> None:
        """A step is done, and is taken back so."""
        self._steps.append((what, undo))

    def undone(self, error: FairleadError) -> FairleadError:
        """Take all back, the last step first; the same error with what became of each step."""
        if not self._steps:
            return error
        return to_error({"errors": [{"code": code_of(error), "desc": f"{error}; done before: {self.taken_back()}"}]})

    def taken_back(self) -> str:
        """Take all back, the last step first; what became of each."""
        told = []
        for what, undo in reversed(self._steps):
            try:
                undo()
                told.append(f"{what} (taken back)")
            except FairleadError as failure:
                told.append(f"{what} (still there: {failure})")
        return ", ".join(reversed(told))


def _create(command: Command, params: Mapping[str, Any], cluster: str | None) -> Envelope:
    """Make a stream, also with the settings of one in another cluster."""
    given = command.parse(params)
    source = given["copymetafrom"]
    if source is None:
        return call(command, params, cluster)
    source = global_path(source, cluster)
    if source.cluster == global_path(given["path"], cluster).cluster:
        return call(command, params, cluster)
    own = {name: value for name, value in params.items() if name != "copymetafrom"}
    return call(command, {**settings_of(source), **own}, cluster)


create = command_function(CREATE, _create)
