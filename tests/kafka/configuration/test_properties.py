"""Java's property files. The expected values are what `java.util.Properties` says of the same text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.kafka.configuration.properties import load_properties, read_properties
from fairlead.model.errors import InvalidValue


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=b", {"a": "b"}),
        ("a : b \n  c\td e", {"a": "b ", "c": "d e"}),
        ("# a=b\n  ! c=d\n\n   \ne=f", {"e": "f"}),
        ("a=b\\\n   c\\\n d\ne=f", {"a": "bcd", "e": "f"}),
        ("a=b\\\n# no comment", {"a": "b# no comment"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a\\ b\\=c\\:d = e\\tf\\ng\\u00e9\\q", {"a b=c:d": "e\tf\ngéq"}),
        ("a=\\ud83e\\udd86", {"a": "🦆"}),
        ("a=1\na=2", {"a": "2"}),
        ("a", {"a": ""}),
        ("a=\nb==c", {"a": "", "b": "=c"}),
        ("=c", {"": "c"}),
        ("a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_a_file_says_what_java_reads_in_it(text: str, entries: dict[str, str]) -> None:
    assert read_properties(text) == entries


def test_an_escape_that_is_none_is_an_error_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "consumer.config"
    file.write_text("a=\\u12")
    with pytest.raises(InvalidValue, match=r"consumer\.config: a \\u must be followed"):
        load_properties(file)
    file.write_text("a=\\ud83e-\\udd86")
    with pytest.raises(InvalidValue, match=r"consumer\.config: .* half a character"):
        load_properties(file)


def test_a_file_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="missing: No such file"):
        load_properties(tmp_path / "missing")


def test_a_file_in_latin_1_is_read(tmp_path: Path) -> None:
    """As Java wrote them before version 9."""
    file = tmp_path / "old"
    file.write_bytes(b"a=caf\xe9")
    assert load_properties(file) == {"a": "café"}


def test_a_mark_before_the_first_letter_is_none_of_the_first_key(tmp_path: Path) -> None:
    """Java takes it for one, and then says that a key is missing which anybody sees in the file."""
    file = tmp_path / "windows"
    file.write_bytes(b"\xef\xbb\xbfa=b\r\n")
    assert load_properties(file) == {"a": "b"}


def test_a_file_in_utf_16_is_an_error_that_says_so(tmp_path: Path) -> None:
    """As PowerShell's `>` writes it."""
    file = tmp_path / "windows"
    file.write_text("a=b", encoding="utf-16")
    with pytest.raises(InvalidValue, match="windows: it is UTF-16; save it as UTF-8"):
        load_properties(file)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read_properties(text)
    except InvalidValue:
        assert "\\u" in text
