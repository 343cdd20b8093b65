"""JSON objects of which one thing is wrong, made from one that is right: what a strict reader must refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

Place = tuple[str | int, ...]

_OTHER_KINDS: dict[type, tuple[Any, ...]] = {
    int: (True, 1.0, 1.5, "1", None, [1], {}),
    str: (1, True, None, ["x"], {}),
    bool: (0, 1, "true", None, []),
    float: ("0.5", None, True, []),
    list: (1, "x", True, None),
    dict: (1, "x", True, None, [1]),
}
NO_OBJECTS = ("", "{", "}", "[]", "null", "7", '"text"', "not JSON", '{"a":}', "[1", "{}{}", "\x00")
"""Texts that are no JSON object."""


def of_other_kinds(text: str, *may_be_null: str) -> dict[str, str]:
    """The object with each of its values that is not null, however deep, replaced by values of other JSON kinds, one
    at a time.

    Args:
        may_be_null: places, as `epochs.0.end`, or the ends of places, that are not replaced by null.
    """
    spoiled = _spoiled(text, lambda value: _OTHER_KINDS.get(type(value), ()))
    allowed = tuple(f".{place} = null" for place in may_be_null)
    return {said: wrong for said, wrong in spoiled.items() if not f".{said}".endswith(allowed)}


def of_bad_hex(text: str) -> dict[str, str]:
    """The object with each id in it (32 hex digits) replaced by what is no hex, one at a time."""
    return _spoiled(text, lambda value: ("zz" * 16, "0" * 31) if _is_id(value) else ())


def of_short_ids(text: str) -> dict[str, str]:
    """The object with each id in it replaced by hex of another length, one at a time."""
    return _spoiled(text, lambda value: ("", "00", "00" * 15, "00" * 17) if _is_id(value) else ())


def negative(text: str) -> dict[str, str]:
    """The object with each whole number in it replaced by one below 0, one at a time."""
    return _spoiled(text, lambda value: (-1,) if type(value) is int else ())


def without_each(text: str, *but: str) -> dict[str, str]:
    """The object without each of its fields, one at a time."""
    data = json.loads(text)
    return {name: json.dumps({n: v for n, v in data.items() if n != name}) for name in data if name not in but}


def with_more(text: str) -> str:
    """The object with a field that nobody knows."""
    return json.dumps({**json.loads(text), "more": 1})


def said_twice(text: str, name: str, first: object) -> str:
    """The object with a field that stands in it twice, before all others with another value."""
    return f"{{{json.dumps(name)}:{json.dumps(first)},{text[1:]}"


def _is_id(value: object) -> bool:
    return isinstance(value, str) and len(value) == 32 and set(value) <= set("0123456789abcdef")


def _spoiled(text: str, wrong: Callable[[Any], tuple[Any, ...]]) -> dict[str, str]:
    data = json.loads(text)
    return {
        f"{'.'.join(map(str, place))} = {json.dumps(bad)}": json.dumps(_with(data, place, bad))
        for place, value in _walk(data, ())
        for bad in wrong(value)
    }


def _walk(value: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    if place:
        yield place, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _walk(inner, (*place, key))


def _with(data: Any, place: Place, value: object) -> Any:
    if not place:
        return value
    copy = data.copy()
    copy[place[0]] = _with(data[place[0]], place[1:], value)
    return copy
