"""The original's style of options, rewritten to the one that Typer reads.

-path /ships           --path /ships         one dash or two
-copyMetaFrom X        --copymetafrom X      names in any case
--dry-run              --dryrun              names with or without dashes in them
-paused  -paused true  --paused=true         a boolean with or without a value
-json true             --json                the same for flags; `false` leaves the flag out
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fairlead.client.booleans import FALSE, TRUE

BOOLEAN = "[true|false]"
"""Metavar by which a boolean option that takes a value is known."""


class _Option(NamedTuple):
    takes_value: bool
    boolean: bool


def normalise(arguments: Sequence[str], root: Any) -> list[str]:
    """Rewrite arguments for a tree of commands (`typer.main.get_command(app)`)."""
    return list(_rewritten(list(arguments), root))


def _rewritten(left: list[str], command: Any) -> Iterator[str]:
    options = _options(command)
    while left:
        token = left.pop(0)
        if token == "--":
            yield from (token, *left)
            return
        if not _is_long_option(token):
            yield token
            command = getattr(command, "commands", {}).get(token, command)
            options = _options(command)
            continue
        name, equals, value = token.partition("=")
        name = "--" + name.lstrip("-").lower()
        joined = "--" + name.replace("-", "")
        name = joined if name not in options and joined in options else name
        option = options.get(name, _Option(takes_value=False, boolean=False))
        if option.boolean:
            yield from _boolean(name, value if equals else _next_boolean(left, option), option)
        elif option.takes_value and not equals and left:
            yield from (name, left.pop(0))
        else:
            yield name + equals + value


def _is_long_option(token: str) -> bool:
    """`-path`, `--path`; not `-p`, `-1` or `-`."""
    return token.startswith("-") and len(token) > 2 and token.lstrip("-")[:1].isalpha()


def _next_boolean(left: list[str], option: _Option) -> str:
    """The value after a boolean; commands whose booleans take one have no arguments, so another word is wrong."""
    given = left and (left[0].lower() in TRUE | FALSE or (option.takes_value and not left[0].startswith("-")))
    return left.pop(0) if given else "true"


def _boolean(name: str, value: str, option: _Option) -> Iterator[str]:
    if option.takes_value:
        yield f"{name}={value}"
    elif value.lower() in TRUE:
        yield name
    elif value.lower() not in FALSE:
        yield f"{name}={value}"


def _options(command: Any) -> dict[str, _Option]:
    found: dict[str, _Option] = {"--help": _Option(takes_value=False, boolean=False)}
    for param in command.params:
        flag = bool(getattr(param, "is_flag", False))
        option = _Option(not flag, flag or getattr(param, "metavar", None) == BOOLEAN)
        found.update({name: option for name in getattr(param, "opts", ()) if name.startswith("--")})
    return found
