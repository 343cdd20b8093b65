"""Typer commands made from the table of the admin interface, so that both always take the same parameters."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from keyword import iskeyword
from types import MappingProxyType
from typing import Annotated, Any

import typer

from fairlead.cli.argv import BOOLEAN
from fairlead.cli.calls import call
from fairlead.cli.output import print_json, print_rows
from fairlead.client.admin import Envelope
from fairlead.client.booleans import TRUE
from fairlead.client.catalog import COMMANDS
from fairlead.client.command import Command, Param
from fairlead.model.errors import BadRequest
from fairlead.process.interrupts import Interrupted

ShowAnswer = Callable[[Envelope, Command, bool], None]

_PANEL_COMMON = "Common options"
_COMMON: tuple[tuple[str, Any, str], ...] = (
    ("cluster", str | None, "the cluster to ask, where no path names one (default: the first of `cluster list`)"),
    ("json", bool, "print the server's answer as JSON"),
)


@dataclass(frozen=True, slots=True)
class OwnOption:
    """An option that only the command line has; `run` gets it by its name."""

    name: str
    kind: Any
    what: str


def add_noun(
    app: typer.Typer,
    noun: tuple[str, ...],
    own: Mapping[str, Callable[..., None]] = MappingProxyType({}),
    but: Collection[str] = (),
) -> None:
    """Add every verb of a noun to its Typer group, `but` for these; `own` has the functions of those that are more than
    a call."""
    for command in COMMANDS:
        if command.noun == noun and command.verb not in but:
            app.command(command.verb)(own.get(command.verb) or command_function(command))


def command_function(
    command: Command, run: Callable[..., Envelope] = call, show: ShowAnswer | None = None, own: Sequence[OwnOption] = ()
) -> Callable[..., None]:
    """The function of one command, with a parameter for each option; `run` does it and is given the options that are
    its `own`, `show` prints the answer."""
    function = _function(command, run, show or print_answer, own)
    function.__doc__ = _help(command)
    return function


def noun_function(command: Command, run: Callable[..., Envelope]) -> Callable[..., None]:
    """The same for a noun that is a command itself, `copystream`, and does nothing where one of its verbs is given."""
    function = command_function(command, run)
    required = [param.name for param in command.params if param.required]

    def of_noun(context: typer.Context, **given: Any) -> None:
        if context.invoked_subcommand is not None:
            return
        for name in required:
            if given[name] is None:
                raise typer.BadParameter(f"option '--{name}' is missing", ctx=context)
        function(**given)

    optional = replace(command, params=tuple(replace(param, required=False) for param in command.params))
    _sign(of_noun, [_keyword("context", typer.Context, inspect.Parameter.empty), *_parameters(optional)])
    of_noun.__doc__ = _help(command)
    return of_noun


def print_answer(answer: Envelope, command: Command, as_json: bool) -> None:
    """Print an answer: nothing for a change that went well and has nothing to say."""
    if as_json:
        print_json(answer.envelope)
    elif answer.data or not command.changes:
        print_rows(answer.data, command.columns)


def confirm(question: str, yes: bool) -> None:
    """Ask before something is destroyed.

    Raises:
        BadRequest: there is nobody to ask.
        typer.Abort: the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadRequest(f"{question} Nobody can answer here: add --yes to go on without asking")
    if not _agreed(question):
        raise typer.Abort


def _agreed(question: str) -> bool:
    """Ask whoever is at the terminal until the answer is yes or no; Enter alone is no. On standard error, since what
    the command finds may go to a file or a program.

    Raises:
        typer.Abort: there is no answer (Ctrl-C, Ctrl-D).
    """
    while True:
        print(f"{question} [y/N]: ", end="", file=sys.stderr, flush=True)
        try:
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            raise typer.Abort from None
        if not line:
            raise typer.Abort
        answer = line.strip().lower()
        if answer in {"y", "yes"}:
            return True
        if answer in {"", "n", "no"}:
            return False
        print("answer y or n", file=sys.stderr)


def _function(
    command: Command, run: Callable[..., Envelope], show: ShowAnswer, own: Sequence[OwnOption]
) -> Callable[..., None]:
    def function(**given: Any) -> None:
        cluster, as_json = given.pop("cluster"), given.pop("json")
        chosen = {option.name: given.pop(option.name) for option in own}
        yes = given.pop("yes", False)
        params = {name.removesuffix("_"): value for name, value in given.items() if value is not None}
        if command.asks:
            command.parse(params)
            dry = str(params.get("dryrun", "")).lower() in TRUE
            confirm(command.asks.format(**params), yes or dry)
        with _saying_what_goes_on(command, params):
            answer = run(command, params, cluster, **chosen)
        show(answer, command, as_json)

    parameters = [*_parameters(command), *(_common(option.name, option.kind, option.what) for option in own)]
    _sign(function, parameters)
    return function


def _sign(function: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> None:
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in parameters}


@contextmanager
def _saying_what_goes_on(command: Command, params: Mapping[str, Any]) -> Iterator[None]:
    """Ctrl-C ends the waiting; what the cluster was asked to do, it does all the same."""
    try:
        yield
    except KeyboardInterrupt:
        if not command.changes:
            raise
        raise Interrupted(command.goes_on.format(**params)) from None


def _parameters(command: Command) -> list[inspect.Parameter]:
    found = [_parameter(param) for param in command.params]
    common = [*_COMMON, ("yes", bool, "do not ask")] if command.asks else _COMMON
    return found + [_common(name, kind, what) for name, kind, what in common]


def _common(name: str, kind: Any, what: str) -> inspect.Parameter:
    option = typer.Option(f"--{name}", help=what, rich_help_panel=_PANEL_COMMON)
    return _keyword(name, Annotated[kind, option], False if kind is bool else None)


def _parameter(param: Param) -> inspect.Parameter:
    """A text option that the server's own check reads; left out when it is not given."""
    default = "" if param.default is None else f" (default: {param.default})"
    metavar = _METAVARS.get(param.kind, "TEXT")
    option = typer.Option(f"--{param.name}", help=param.what + default, metavar=metavar, show_default=False)
    if param.required:
        return _keyword(_python_name(param.name), Annotated[str, option], inspect.Parameter.empty)
    return _keyword(_python_name(param.name), Annotated[str | None, option], None)


def _python_name(name: str) -> str:
    return f"{name}_" if iskeyword(name) else name


_METAVARS = {"stream": "PATH", "source": "PATH", "topic": "TOPIC", "number": "NUMBER", "boolean": BOOLEAN}


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _help(command: Command) -> str:
    examples = " ".join(f"-{param.name} {_EXAMPLES.get(param.name, '…')}" for param in command.params if param.required)
    if not examples:
        return command.what
    words = ["copystream"] if command.path == "/rest/copystream/start" else [*command.noun, command.verb]
    return f"{command.what}\n\nExample: fairlead {' '.join(words)} {examples}"


_EXAMPLES = {
    "path": "/ships",
    "topic": "positions",
    "replica": "/mapr/newyork/ships",
    "upstream": "/mapr/sanfrancisco/ships",
    "src": "/mapr/sanfrancisco/ships",
    "dst": "/mapr/newyork/ships",
    "from": "/mapr/sanfrancisco/ships",
}
