"""The command line, called in this process against a server in another."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from fairlead.cli.program import run


class Done(NamedTuple):
    """What one command line did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class CommandLine:
    """Runs command lines written as a user writes them."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, line: str) -> Done:
        self._capsys.readouterr()
        code = run(line.replace("\\\n", "").split())
        out, err = self._capsys.readouterr()
        return Done(code, out, err)

    def ok(self, line: str) -> Done:
        """A command that must go well and say nothing on standard error."""
        done = self(line)
        assert done.code == 0, done.err
        assert done.err == ""
        return done

    def refused(self, line: str, said: str, code: int = 1) -> None:
        """A command that must fail with one line that says this."""
        done = self(line)
        assert done.code == code, done
        assert said in done.err
        assert done.err.startswith("fairlead: ")
        assert done.err.count("\n") == 1
