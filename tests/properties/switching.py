"""Switching a rule off: a line of the program is replaced while a simulation runs.

A mutation that no seed notices is a rule without a test, or no rule. The line must be in its function exactly once, so
a table that has grown old says so.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from tests.properties.actions import ANYTHING, Kind


class Off(NamedTuple):
    """A line that is replaced."""

    where: str
    line: str
    by: str


@dataclass(frozen=True, slots=True)
class Mutation:
    """A rule, and how it is switched off."""

    name: str
    rule: str
    """What holds no more."""
    where: str
    """Function, as `module:Class.method`, below `fairlead`."""
    line: str
    by: str
    """What stands in the function instead of `line`."""
    seed: int
    """Notices it."""
    kind: Kind = ANYTHING
    """Of the world in which it does."""
    also: tuple[Off, ...] = ()
    """The same rule stands there too."""

    def replaced(self, line: str) -> Mutation:
        """The same with another line."""
        return replace(self, line=line)


@contextmanager
def switched_off(rule: Mutation) -> Iterator[None]:
    """Meanwhile the program goes without that rule, whoever has imported the function."""
    originals: list[tuple[FunctionType, CodeType]] = []
    try:
        for where, line, by in (Off(rule.where, rule.line, rule.by), *rule.also):
            function = _function(where)
            source = textwrap.dedent(inspect.getsource(function))
            assert source.count(line) == 1, f"{rule.name}: {line!r} is not in {where}, or more than once"
            originals.append((function, function.__code__))
            function.__code__ = _compiled(function, source.replace(line, by)).__code__
        yield
    finally:
        for function, original in originals:
            function.__code__ = original


def _function(where: str) -> FunctionType:
    module, _, path = where.partition(":")
    found: Any = importlib.import_module(f"fairlead.{module}")
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
    found = found.fget if isinstance(found, property) else found
    assert isinstance(found, FunctionType)
    return found


def _compiled(function: FunctionType, source: str) -> FunctionType:
    """What the source defines, without its decorators."""
    at = source.index("def ") if "async def " not in source else source.index("async def ")
    code = compile(source[at:], function.__code__.co_filename, "exec", annotations.compiler_flag)
    names: dict[str, Any] = {}
    exec(code, dict(function.__globals__), names)
    made = names[function.__name__]
    assert isinstance(made, FunctionType)
    return made
