"""`fairlead stream replica autosetup`: says what was done and what happens now; `--wait` waits until the replica is in
step. Where the replica is in another cluster, this command makes it there and names its upstream, then the source's
cluster names it and copies; that goes on if the command is ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fairlead.cli.calls import call, chosen_cluster
from fairlead.cli.generate import OwnOption, command_function
from fairlead.cli.output import print_error, print_json, print_rows
from fairlead.cli.progress import Progress
from fairlead.cli.two_clusters.outlook import outlook
from fairlead.cli.two_clusters.set_up import Pair, pair_of, set_up, upstream_of
from fairlead.client.admin import Envelope
from fairlead.client.catalog import BY_PATH
from fairlead.client.command import Command
from fairlead.model.clock import SystemClock
from fairlead.model.errors import AlreadyExists, FairleadError, InvalidValue, UnknownStream, Unreachable
from fairlead.model.names import parse_source_path, parse_stream_path
from fairlead.process.interrupts import Interrupted

POLL_SECONDS = 0.5
"""Between two questions how far the replica is."""
_AUTOSETUP = BY_PATH["/rest/stream/replica/autosetup"]
_LIST = BY_PATH["/rest/stream/replica/list"]


def _run(
    command: Command,
    params: Mapping[str, Any],
    cluster: str | None,
    *,
    wait: bool = False,
    timeout: float | None = None,
    dryrun: bool = False,
) -> Envelope:
    if timeout is not None and not wait:
        raise InvalidValue("--timeout: only with --wait")
    if timeout is not None and not timeout >= 0:
        raise InvalidValue(f"--timeout {timeout:g}: give seconds, 0 or more")
    if command.parse(params)["path"].kafka is not None:
        return _of_kafka(command, params, cluster, wait=wait, timeout=timeout, dryrun=dryrun)
    pair = pair_of(command, params, cluster)
    if dryrun:
        rows = tuple(outlook(pair))
        return Envelope(rows, {"status": "OK", "total": len(rows), "data": list(rows)})
    try:
        answer = set_up(command, params, cluster)
    except AlreadyExists as error:
        if not wait or _row(params, cluster) is None or not _is_taken(pair):
            raise
        print_error(f"{error}; this command waits until it is in step")
        answer = Envelope((), {})
    if not wait:
        return answer
    for line in _told(answer):
        print(line, file=sys.stderr, flush=True)
    return _in_step(params, cluster, timeout)


def _of_kafka(
    command: Command, params: Mapping[str, Any], cluster: str | None, *, wait: bool, timeout: float | None, dryrun: bool
) -> Envelope:
    """The replica's cluster does it all.

    Raises:
        InvalidValue: --dryrun, which asks a cluster of Fairlead. FairleadError: as the call, and `_in_step`.
    """
    if dryrun:
        raise InvalidValue("--dryrun: of a Kafka cluster, `fairlead mirror --dry-run` shows which topics match")
    answer = call(command, params, cluster)
    if not wait:
        return answer
    for line in _told(answer):
        print(line, file=sys.stderr, flush=True)
    return _in_step(params, cluster, timeout)


def _is_taken(pair: Pair) -> bool:
    """The replica is there and takes what the source sends: else it can never be in step."""
    with suppress(UnknownStream):
        return bool(upstream_of(pair))
    return False


def _in_step(params: Mapping[str, Any], cluster: str | None, timeout: float | None) -> Envelope:
    """Wait until all that there was when the link began has arrived; a server that is away meanwhile is waited for too.

    Raises:
        FairleadError: the link has stopped or is gone, it takes longer than `timeout` seconds, or partitions are set
            aside.
        Interrupted: Ctrl-C; replication goes on.
    """
    clock = SystemClock()
    deadline_ms = None if timeout is None else clock.monotonic_ms() + timeout * 1000
    what, percent, far = f"the replica {params['replica']}", 0, ""
    progress = Progress()
    try:
        while True:
            try:
                row = _standing(_row(params, cluster), what)
                if _has_come(row):
                    return _whole(row, what, params)
                percent, far, phase = row["copyTableCompletionPercentage"], _how_far(row), _phase(row)
            except Unreachable as error:
                far = phase = str(error)
            progress.show(percent, far, phase)
            if deadline_ms is not None and clock.monotonic_ms() >= deadline_ms:
                raise FairleadError(f"{what} is not in step after {timeout:g} s ({far}); {_goes_on(params)}")
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        raise Interrupted(f"{what} is not in step yet{far and f' ({far})'}; {_goes_on(params)}") from None
    finally:
        progress.end()


def _has_come(row: Mapping[str, Any]) -> bool:
    """All that comes by itself is there."""
    goes_on = row["replicaState"] == "REPLICA_STATE_REPLICATING" and not row["errors"]
    return goes_on and row["partitionsBehind"] == row["conflicts"]


def _whole(row: dict[str, Any], what: str, params: Mapping[str, Any]) -> Envelope:
    """The answer. Raises: FairleadError: partitions are set aside, until somebody decides."""
    if row["conflicts"]:
        names = f"`fairlead stream replica list -path {params['path']}` names them"
        raise FairleadError(f"{what} has all but {row['conflicts']:,} partitions, which are set aside: {names}")
    return Envelope((row,), {"status": "OK", "total": 1, "data": [row]})


def _standing(row: dict[str, Any] | None, what: str) -> dict[str, Any]:
    """The row of a link that may come into step by itself.

    Raises:
        FairleadError: it has stopped or is gone.
    """
    if row is None:
        raise FairleadError(f"{what} was removed meanwhile")
    if row["replicaState"] == "REPLICA_STATE_UNEXPECTED":
        raise FairleadError(f"{what} has stopped: {row['errors'].get('Msg', '')}")
    return row


def _row(params: Mapping[str, Any], cluster: str | None) -> dict[str, Any] | None:
    """The replica's row of `replica list`."""
    source, replica = parse_source_path(params["path"]), parse_stream_path(params["replica"])
    if source.kafka is not None:
        cluster = replica.cluster or cluster
    home = source.cluster or chosen_cluster(cluster).name
    wanted = (replica.cluster or home, replica.path)
    rows = call(_LIST, {"path": params["path"]}, cluster).data
    return next((row for row in rows if (row["cluster"], row["stream"]) == wanted), None)


def _how_far(row: Mapping[str, Any]) -> str:
    behind = row["partitionsBehind"] - row["conflicts"]
    left = f"{behind:,} partitions to repair" if behind and not row["putsPending"] else ""
    return _phase(row) or left or f"{row['putsPending']:,} records to go"


def _phase(row: Mapping[str, Any]) -> str:
    """What keeps records from being carried; empty while they are."""
    if row["errors"]:
        return str(row["errors"]["Msg"])
    return "" if row["replicator"]["state"] == "carrying" else "the replicator starts"


def _goes_on(params: Mapping[str, Any]) -> str:
    return (
        f"replication goes on: `fairlead stream replica list -path {params['path']}` shows how far it is, "
        "the same command waits again"
    )


def _told(answer: Envelope) -> list[str]:
    """What was done and what happens now."""
    row = answer.first
    return [*row["done"], row["next"]] if row else []


def _show(answer: Envelope, command: Command, as_json: bool) -> None:
    row = answer.first
    if as_json:
        print_json(answer.envelope)
    elif "missing" in row:
        print_rows(answer.data, ())
    elif "done" in row:
        for line in _told(answer):
            print(line)
        source = str(row["source"])
        print(f"how far it is: fairlead stream replica list -path {source} (`--wait` waits until it is in step)")
    else:
        print(f"{row['replicaPath']} is in step")


autosetup = command_function(
    _AUTOSETUP,
    _run,
    _show,
    (
        OwnOption("dryrun", bool, "only show what would be brought and made, and how long that takes (ours)"),
        OwnOption("wait", bool, "wait until the replica is in step, and show how far it is (ours)"),
        OwnOption("timeout", float | None, "with --wait: give up waiting after so many seconds (ours)"),
    ),
)
