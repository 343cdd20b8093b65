"""Text of others as it is shown."""

from __future__ import annotations

import pytest

from fairlead.cli.output import print_error, print_rows
from fairlead.model.errors import InvalidName
from fairlead.model.names import parse_stream_path
from fairlead.model.shown import shown

UNSEEN = ["\x1b", "\x07", "\x7f", "\x9b", "\u202e", "\u2066", "\u200f", "\u200b", "\u2028", "\ufeff"]


@pytest.mark.parametrize("sign", UNSEEN, ids=ascii)
def test_a_terminal_is_not_commanded_by_others(sign: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An error of another cluster cleared the screen, or wrote a line of its own; a name was read backwards."""
    print_error(f"the other says: {sign}[2J")
    print_rows([{"path": f"/a{sign}b", "urls": [f"http://x{sign}"]}], ("path", "urls"))
    out, err = capsys.readouterr()
    assert sign not in out + err
    assert "/a\\" in out


@pytest.mark.parametrize("sign", UNSEEN, ids=ascii)
def test_a_path_has_only_signs_that_are_seen(sign: str) -> None:
    """Two paths would look alike, or one like another."""
    with pytest.raises(InvalidName, match="unprintable"):
        parse_stream_path(f"/ships{sign}/log")


def test_letters_of_all_languages_are_shown() -> None:
    """Also those written from right to left."""
    for text in ("/schiffe/größe", "/船/日志", "/سفن", "/корабли", "/🚢"):
        assert shown(text) == text
        assert parse_stream_path(text).path == text


def test_lines_stay_where_they_are_wanted() -> None:
    """In a traceback."""
    assert shown("a\n\tb\x1b", breaks=True) == "a\n\tb\\x1b"
