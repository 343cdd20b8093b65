"""`fairlead`: the command tree, its options in the original's style, and one line for every error."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from fairlead import __version__
from fairlead.cli import cluster, copystream, stream
from fairlead.cli.argv import normalise
from fairlead.cli.fsck import fsck
from fairlead.cli.output import print_error, print_json
from fairlead.cli.records import consume, produce
from fairlead.cli.status import status
from fairlead.cli.up import replicator, server, up
from fairlead.model.clock import SystemClock
from fairlead.model.envelope import error_envelope
from fairlead.model.errors import FairleadError

# The classes of usage errors have no public name in Typer, which brings its own copy of click.
_UsageError: type[Any] = typer.BadParameter.__mro__[1]

FAILED, MISUSED, BUG, INTERRUPTED = 1, 2, 70, 130

_SHORT_HELP = """Fairlead: Kafka topics in streams, replicated between sites with their offsets kept.

First steps:
  fairlead up --name sanfrancisco --data DIR    run a cluster here (Ctrl-C stops it)
  fairlead status                               is it running, and where?
  echo hello | fairlead produce first           write a record to the topic `first`
  fairlead consume first --from-beginning       read it
  fairlead stream create -path /ships           make a stream of your own
  fairlead stream replica autosetup -path /ships -replica /mapr/newyork/ships

`fairlead --help` lists all commands, `fairlead COMMAND --help` explains one."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"fairlead {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version")
    ] = False,
) -> None:
    """Fairlead: Kafka topics in streams, replicated between sites with their offsets kept."""
    if context.invoked_subcommand is None:
        print(_SHORT_HELP)


app.command("up")(up)
app.command("server")(server)
app.command("replicator")(replicator)
app.command("status")(status)
app.command("fsck")(fsck)
app.add_typer(stream.app, name="stream")
copystream.add_to(app)
app.command("produce")(produce)
app.command("consume")(consume)
app.add_typer(cluster.app, name="cluster")


def main() -> None:
    """The entry point of the command `fairlead`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and answer its exit code; every error is one line on standard error."""
    try:
        command = typer.main.get_command(app)
        arguments = normalise(arguments, command)
        return int(command(args=list(arguments), prog_name="fairlead", standalone_mode=False) or 0)
    except FairleadError as error:
        return _failed(error, arguments)
    except _UsageError as error:
        return _misused(error)
    except (typer.Abort, KeyboardInterrupt):
        print_error("stopped")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; what Python would still flush goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        return _bug(error)


def _failed(error: FairleadError, arguments: Sequence[str]) -> int:
    if "--json" in arguments:
        print_json(error_envelope(error, SystemClock().wall_ms()))
    print_error(str(error))
    _details()
    return FAILED


def _misused(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message())
        return 0
    context = getattr(error, "ctx", None)
    hint = "" if context is None else f" (see `{context.command_path} --help`)"
    print_error(error.format_message() + hint)
    return MISUSED


def _bug(error: Exception) -> int:
    print_error(f"a bug: {type(error).__name__}: {error} (FAIRLEAD_LOG_LEVEL=debug shows where)")
    _details()
    return BUG


def _details() -> None:
    if os.environ.get("FAIRLEAD_LOG_LEVEL", "").lower() == "debug":
        traceback.print_exc()


if __name__ == "__main__":
    main()
