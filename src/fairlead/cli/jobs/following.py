"""Commands that begin a job: which topics they name, how they wait, and what is said of the outcome.

The job goes on if the command is ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from fairlead.cli.calls import call
from fairlead.cli.generate import OwnOption
from fairlead.cli.output import print_json, print_rows
from fairlead.cli.progress import Progress
from fairlead.client.admin import Envelope
from fairlead.client.catalog import BY_PATH
from fairlead.model.errors import FairleadError, InvalidValue, PartlyRefused, Unreachable
from fairlead.model.names import check_topic_name, parse_stream_path
from fairlead.process.interrupts import Interrupted

POLL_SECONDS = 0.3
"""Between two questions how far the job is."""
NAMES_BYTES_MAX: Final = 900_000
"""Of the names in a file: what a call may be long, less what else it says."""
NOWAIT: Final = OwnOption("nowait", bool, "begin, and do not wait until all topics had their turn (ours)")
_SHOW: Final = BY_PATH["/rest/job/show"]


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
    except OSError as error:
        raise InvalidValue(f"-topic {text}: the file cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidValue(f"-topic {text}: the file is no UTF-8 text; give a name in each line") from error
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
        FairleadError: it failed, or somebody has cancelled it.
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
    if row["state"] == "cancelled":
        raise FairleadError(
            f"the {row['kind']} was cancelled after {row['done']:,} of {row['topics']:,} topics; what it has done "
            f"stays: `fairlead job show -id {id}{where}` shows it"
        )
    return answer


def home_of(params: Mapping[str, Any], cluster: str | None) -> str | None:
    """The cluster that has the job: a job has no path, so its cluster is asked by its name."""
    return parse_stream_path(params["path"]).cluster or cluster


def print_outcome(answer: Envelope, as_json: bool, said: Callable[[Mapping[str, Any]], str], stays: str) -> None:
    """What a job has done, in the words of `said`, and which topics were refused or lack something. `stays`: what a
    refusal means for them.

    Raises:
        PartlyRefused: some topics were refused.
    """
    row = answer.first
    if as_json:
        print_json(answer.envelope)
    elif row["state"] == "running":
        print(f"job {row['id']} is running; `fairlead job show -id {row['id']}` shows how far it is")
    else:
        print(said(row))
        print_topics(row)
    check_all_taken(row, stays)


def print_topics(row: Mapping[str, Any]) -> None:
    """The first topics that a job has refused, and those that it has changed though something of them is missing."""
    for topics, column in (("refusals", "reason"), ("lacks", "what")):
        if row[topics]:
            print_rows(row[topics], ("topic", column))


def check_all_taken(row: Mapping[str, Any], stays: str) -> None:
    """Raises: PartlyRefused: the job has refused topics, which have been shown. `stays`: what that means for them."""
    if row["refused"]:
        raise PartlyRefused(f"{row['refused']:,} of {row['topics']:,} topics were refused{stays}")


def unchanged(row: Mapping[str, Any]) -> int:
    """Of how many topics nothing was to be done."""
    return int(row["done"] - row["changed"] - row["refused"])
