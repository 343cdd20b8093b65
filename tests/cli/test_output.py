"""What a command prints on a terminal."""

from __future__ import annotations

import sys

import pytest

from fairlead.cli.output import print_rows


@pytest.mark.parametrize("columns", [("path", "what"), ()])
@pytest.mark.parametrize("text", ["[fd00::5]:9092", "[a-z]+-x", "/a[/b]", ":smile: [bold]x[/bold]", "\\[x]"])
def test_a_table_shows_text_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: tuple[str, ...], text: str
) -> None:
    """Addresses, expressions and reasons: what stood in brackets was taken for Rich's markup."""
    for name, value in (("TERM", "xterm"), ("COLUMNS", "200")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_rows([{"path": "/a", "what": text}], columns)
    out = capsys.readouterr().out
    assert text in out
    assert "\x1b[" in out
