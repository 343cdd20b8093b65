"""Java's property files, as `java.util.Properties` reads them."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path
from typing import Final

from fairlead.model.errors import InvalidValue

_SPACE: Final = " \t\f"
_LINE_ENDS: Final = re.compile(r"\r\n|\n|\r")
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY: Final = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPED: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)


def read_properties(text: str) -> dict[str, str]:
    """The entries of a file; of one that is there twice the last.

    Raises:
        InvalidValue: a `\\u` is not followed by four hexadecimal digits, or is half a character.
    """
    entries = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None  # it may be empty
        separator = _SEPARATOR.match(line, key.end())
        value = line[separator.end() :] if separator is not None else ""
        entries[_unescaped(key.group())] = _unescaped(value)
    return entries


def load_properties(path: Path) -> dict[str, str]:
    """The entries of the file at a path; UTF-8, or Latin-1 as Java's older files. The mark that Windows' tools put
    before the first letter is none of the first key, as which Java reads it.

    Raises:
        InvalidValue: it cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidValue(f"{path}: {error.strerror}") from None
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise InvalidValue(f"{path}: it is UTF-16; save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    try:
        return read_properties(text)
    except InvalidValue as error:
        raise InvalidValue(f"{path}: {error}") from None


def _logical_lines(text: str) -> list[str]:
    """Lines without comments; those that end in a backslash are joined with the next."""
    lines: list[str] = []
    continued = False
    for natural in _LINE_ENDS.split(text):
        line = natural.lstrip(_SPACE)
        if not continued and (not line or line[0] in "#!"):
            continue
        joined = lines.pop() + line if continued else line
        backslashes = len(joined) - len(joined.rstrip("\\"))
        continued = backslashes % 2 == 1
        lines.append(joined[:-1] if continued else joined)
    return lines


def _unescaped(text: str) -> str:
    """Java writes a character beyond the first 65,536 as two, which are one here."""
    found = _ESCAPED.sub(_meant, text)
    try:
        return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise InvalidValue("a \\u from d800 to dfff is half a character, and the other half is not beside it") from None


def _meant(escaped: re.Match[str]) -> str:
    code = escaped.group(1)
    if code[0] == "u":
        if len(code) == 1:
            raise InvalidValue("a \\u must be followed by four hexadecimal digits")
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)
