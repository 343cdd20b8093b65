"""`fairlead`, `maprcli` and `mapr`: the tree of commands, its options in the original's style, a line for each error.

Of the tree only the command is made that a command line names: to import and make all of them takes longer than most
commands do.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from fairlead import __version__
from fairlead.cli.argv import normalise
from fairlead.cli.output import print_error, print_json
from fairlead.model.errors import BadRequest, FairleadError, PartlyRefused
from fairlead.process.interrupts import INTERRUPTED, Interrupted

# The classes of usage errors have no public name in Typer, which brings its own copy of click.
_UsageError: type[Any] = typer.BadParameter.__mro__[1]

FAILED, MISUSED, BUG = 1, 2, 70

COMMANDS: Final[Mapping[str, str]] = {
    "up": "fairlead.cli.up:up",
    "server": "fairlead.cli.up:server",
    "replicator": "fairlead.cli.up:replicator",
    "status": "fairlead.cli.status:status",
    "fsck": "fairlead.cli.fsck:fsck",
    "stream": "fairlead.cli.stream:app",
    "copystream": "fairlead.cli.two_clusters.copystream:app",
    "produce": "fairlead.cli.records:produce",
    "consume": "fairlead.cli.records:consume",
    "cluster": "fairlead.cli.cluster:app",
    "clock": "fairlead.cli.clock:app",
    "job": "fairlead.cli.jobs.job:app",
    "mirror": "fairlead.cli.mirror:mirror",
}
"""Where each command is: a function, or the group of a noun."""

_SHORT_HELP = """Fairlead: Kafka topics in streams, replicated between sites with their offsets kept.

First steps:
  fairlead up --name sanfrancisco --data DIR    run a cluster here (Ctrl-C stops it)
  fairlead status                               is it running, and where?
  echo hello | fairlead produce first           write a record to the topic `first`
  fairlead consume first --from-beginning       read it
  fairlead stream create -path /ships           make a stream of your own
  fairlead stream replica autosetup -path /ships -replica /mapr/newyork/ships

`fairlead --help` lists all commands, `fairlead COMMAND --help` explains one."""

_OF_THE_ORIGINAL = """{}, as the original has it, run by Fairlead.

The other commands of the original are not here. `fairlead --help` lists all of Fairlead's,
`{} --help` explains these."""


@dataclass(frozen=True, slots=True)
class Program:
    """A name that command lines begin with."""

    name: str
    commands: tuple[str, ...]
    """Those of `COMMANDS` that it has."""
    short_help: str


FAIRLEAD: Final = Program("fairlead", tuple(COMMANDS), _SHORT_HELP)
MAPRCLI: Final = Program("maprcli", ("stream",), _OF_THE_ORIGINAL.format("`maprcli stream …`", "maprcli stream"))
MAPR: Final = Program("mapr", ("copystream",), _OF_THE_ORIGINAL.format("`mapr copystream`", "mapr copystream"))

_NO_HELP: Final[Mapping[str, Any]] = {"help": False}
"""Typer imports pydantic for an option without a value; `--help`, which every command has, is given one."""


def tree(program: Program = FAIRLEAD, names: Iterable[str] = tuple(COMMANDS)) -> Any:
    """The program with these commands below it."""
    defaults = {**_NO_HELP, **dict.fromkeys(COMMANDS, _NO_HELP)}
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"default_map": defaults},
    )
    app.callback(invoke_without_command=True, help=program.short_help.partition("\n")[0])(_root(program))
    for name in names:
        module, _, attribute = COMMANDS[name].partition(":")
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return typer.main.get_command(app)


def _needed(program: Program, arguments: Sequence[str]) -> Iterable[str]:
    """The commands that must be known for this command line: the one that it names, or all, to show or to compare.

    Raises:
        BadRequest: a command of the original that is not ours.
    """
    word = next((each for each in arguments if not each.startswith("-")), "")
    if word in program.commands:
        return [word]
    if word and program is not FAIRLEAD:
        raise BadRequest(
            f"{program.name} {word}: of the original's commands Fairlead has `maprcli stream …` and `mapr copystream`; "
            "`fairlead --help` lists its own"
        )
    asks = word != "" or any(each.lstrip("-").lower() == "help" for each in arguments)
    return program.commands if asks else ()


def _version(wanted: bool) -> None:
    if wanted:
        print(f"fairlead {__version__}")
        raise typer.Exit


def _root(program: Program) -> Callable[..., None]:
    def root(
        context: typer.Context,
        version: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version")
        ] = False,
    ) -> None:
        if context.invoked_subcommand is None:
            print(program.short_help)

    return root


def run(arguments: Sequence[str], program: Program = FAIRLEAD) -> int:
    """Run one command line and answer its exit code; every error is one line on standard error."""
    try:
        code = _run(arguments, program)
        sys.stdout.flush()
        return code
    except OSError as error:
        return _refused(error)


def _run(arguments: Sequence[str], program: Program) -> int:
    try:
        command = tree(program, _needed(program, arguments))
        arguments = normalise(arguments, command)
        return int(command(args=list(arguments), prog_name=program.name, standalone_mode=False) or 0)
    except FairleadError as error:
        return _failed(error, arguments)
    except _UsageError as error:
        return _misused(error)
    except Interrupted as what:
        print_error(f"stopped; {what}")
        return INTERRUPTED
    except KeyboardInterrupt:
        return INTERRUPTED
    except typer.Abort:
        print_error("stopped")
        return INTERRUPTED
    except OSError:
        raise
    except Exception as error:
        return _bug(error)


def _refused(error: OSError) -> int:
    """By the system, mostly to print: the reader of our output has gone, or its disk is full. What was done is done."""
    if not isinstance(error, BrokenPipeError):
        print_error(f"{error} (FAIRLEAD_LOG_LEVEL=debug shows where)")
        _details()
    try:
        sys.stdout.flush()
    except OSError:
        # What Python would still flush at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


def _failed(error: FairleadError, arguments: Sequence[str]) -> int:
    print_error(str(error))
    _details()
    # One document for each call: what names the refused topics has been printed.
    if "--json" in arguments and not isinstance(error, PartlyRefused):
        from fairlead.model.clock import SystemClock
        from fairlead.model.envelope import error_envelope

        print_json(error_envelope(error, SystemClock().wall_ms()))
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
