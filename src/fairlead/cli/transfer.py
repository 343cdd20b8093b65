"""`fairlead stream topic transfer` and `fairlead job show --wait`: commands that wait while the cluster works through a
list of topics. It goes on if the command is ended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairlead.cli.calls import call
from fairlead.cli.generate import OwnOption, command_function
from fairlead.cli.output import print_json, print_rows
from fairlead.cli.progress import Progress
from fairlead.client.admin import Envelope
from fairlead.client.catalog import BY_PATH
from fairlead.client.command import Command
from fairlead.model.errors import FairleadError, InvalidValue, Unreachable
from fairlead.model.names import check_topic_name, parse_stream_path
from fairlead.process.interrupts import Interrupted

POLL_SECONDS = 0.3
"""Between two questions how far the job is."""
NAMES_BYTES_MAX = 900_000
"""Of the names in a file: what a call may be long, less what else it says."""
_TRANSFER = BY_PATH["/rest/stream/topic/transfer"]
_SHOW = BY_PATH["/rest/job/show"]


def _transfer(command: Command, params: Mapping[str, Any], cluster: str | None, nowait: bool = False) -> Envelope:
    answer = call(command, {**params, "topic": topics_of(params["topic"])}, cluster)
    # A job has no path, so its cluster is asked by its name.
    home = parse_stream_path(params["path"]).cluster or cluster
    return answer if nowait else ended(str(answer.first["id"]), home)


def _show_job(command: Command, params: Mapping[str, Any], cluster: str | None, wait: bool = False) -> Envelope:
    return ended(params["id"], cluster) if wait else call(command, params, cluster)


def topics_of(text: str) -> str:
    """What names the topics: as it is given, or the lines of the file after an @.

    Raises:
        InvalidValue: the file cannot be read, or is too long for one call.
        InvalidName: a line of it is no name; a file holds no expressions.
    """
    if not text.startswith("@"):
        return text
    file = Path(text[1:])
    try:
        names = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(f"-topic {text}: {error}") from error
    if len(names.encode()) > NAMES_BYTES_MAX:
        raise InvalidValue(f"-topic {text}: longer than {NAMES_BYTES_MAX:,} bytes; split it, or use an expression")
    if not names.strip():
        raise InvalidValue(f"-topic {text}: the file names no topic")
    for name in filter(None, map(str.strip, names.splitlines())):
        check_topic_name(name)
    return names


def ended(id: str, cluster: str | None) -> Envelope:
    """Wait until a job has ended.

    Raises:
        FairleadError: it failed.
        Unreachable: no server answers any more; the job goes on with the next start.
        Interrupted: Ctrl-C; the job goes on.
    """
    where = f" --cluster {cluster}" if cluster else ""
    progress = Progress()
    try:
        while True:
            answer = call(_SHOW, {"id": id}, cluster)
            row = answer.first
            if row["state"] != "running":
                break
            waits = f"waits: {row['waitsfor']}" if row["waitsfor"] else ""
            progress.show(row["percent"], waits or f"{row['done']:,} of {row['topics']:,} topics", waits)
            time.sleep(POLL_SECONDS)
    except Unreachable as error:
        raise Unreachable(
            f"{error} The job goes on once the server is back: `fairlead job show -id {id}{where}` shows how far it is"
        ) from error
    except KeyboardInterrupt:
        raise Interrupted(
            f"the job goes on: `fairlead job show -id {id}{where}` shows how far it is, with --wait it waits again, "
            f"`fairlead job cancel -id {id}{where}` ends it"
        ) from None
    finally:
        progress.end()
    if row["state"] == "failed":
        raise FairleadError(f"the {row['kind']} has stopped after {row['done']:,} topics: {row['error']}")
    return answer


def _print(answer: Envelope, command: Command, as_json: bool) -> None:
    """What a job has done.

    Raises:
        FairleadError: some topics were refused.
    """
    row = answer.first
    if as_json:
        print_json(answer.envelope)
    elif row["state"] == "running":
        print(f"job {row['id']} is running; `fairlead job show -id {row['id']}` shows how far it is")
    else:
        dry = row.get("dry_run") == "true"
        what = "would be handed over" if dry else "handed over"
        same = row["done"] - row["changed"] - row["refused"]
        already = f", {same:,} were there already" if same else ""
        print(f"{row['changed']:,} topics {what} to {row['to']}{already}")
        if row["refusals"]:
            print_rows(row["refusals"], ("topic", "reason"))
    if row["refused"]:
        raise FairleadError(f"{row['refused']:,} of {row['topics']:,} topics were refused and stay as they are")


def _print_job(answer: Envelope, command: Command, as_json: bool) -> None:
    if as_json:
        print_json(answer.envelope)
        return
    row = answer.first
    print_rows([{name: value for name, value in row.items() if name != "refusals"}], ())
    if row["refusals"]:
        print()
        print_rows(row["refusals"], ("topic", "reason"))


transfer = command_function(
    _TRANSFER,
    _transfer,
    _print,
    (OwnOption("nowait", bool, "begin, and do not wait until all topics had their turn (ours)"),),
)
show = command_function(
    _SHOW,
    _show_job,
    _print_job,
    (OwnOption("wait", bool, "wait until the job has ended, and show how far it is (ours)"),),
)
