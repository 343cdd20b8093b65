"""`sasl.jaas.config` in Java's own syntax: a login module, a flag, and options."""

from __future__ import annotations

import re
from typing import Final

from fairlead.model.errors import InvalidValue

_TOKEN: Final = re.compile(r'\s*(?:"((?:\\.|[^"\\])*)"|([^\s=;"]+)|([=;]))', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})


def read_jaas(text: str) -> tuple[str, dict[str, str]]:
    """The login module's class, without its package, and its options. No message repeats what is in them.

    Raises:
        InvalidValue: it is not of that form.
    """
    words = _words(text)
    if len(words) < 2 or words[1].lower() not in _FLAGS or words[-1] != ";":
        raise InvalidValue('sasl.jaas.config: write `MODULE required username="…" password="…";`')
    rest = words[2:-1]
    if len(rest) % 3 or any(equals != "=" for equals in rest[1::3]):
        raise InvalidValue("sasl.jaas.config: options are written NAME=VALUE, and one entry ends with `;`")
    return words[0].rpartition(".")[2], dict(zip(rest[::3], rest[2::3], strict=True))


def _words(text: str) -> list[str]:
    words, at, text = [], 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise InvalidValue("sasl.jaas.config: a quote is not closed")
        quoted, plain, mark = found.groups()
        words.append(_ESCAPED.sub(r"\1", quoted) if quoted is not None else plain or mark)
        at = found.end()
    return words
