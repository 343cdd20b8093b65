"""Frozen dataclasses to JSON objects and back, strictly: a field missing, unknown or of another type is an error.

What a field's type becomes in JSON:

    int, str, bool          themselves (a bool is no int)
    bytes                   hex digits
    Run                     [epoch, counter]
    X | None                null or X
    tuple[X, ...]           array
    Mapping[int, X]         object with decimal keys
    a frozen dataclass      object
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from fairlead.model.errors import InvalidValue
from fairlead.streamlog.values import GrantRun

T = TypeVar("T")
Convert = Callable[[Any], Any]


class _Field(NamedTuple):
    name: str
    required: bool
    dump: Convert
    load: Convert


def to_object(value: object) -> dict[str, Any]:
    """The JSON object of a frozen dataclass."""
    return {field.name: field.dump(getattr(value, field.name)) for field in _plan_of(type(value))}


def from_object(kind: type[T], data: object) -> T:
    """Build a `kind` from a parsed JSON object.

    Raises:
        InvalidValue: a field is missing, unknown or has a value of another type; the message names it.
    """
    if not isinstance(data, dict):
        raise InvalidValue(f"{kind.__name__}: a JSON object was expected, not {type(data).__name__}")
    plan = _plan_of(kind)
    unknown = data.keys() - {field.name for field in plan}
    if unknown:
        raise InvalidValue(f"{kind.__name__}: unknown field {min(unknown)!r}; is the other side a newer version?")
    return kind(**{field.name: _load(kind, field, data) for field in plan if field.required or field.name in data})


def _load(kind: type[object], field: _Field, data: Mapping[str, Any]) -> Any:
    if field.name not in data:
        raise InvalidValue(f"{kind.__name__}: field {field.name!r} is missing")
    try:
        return field.load(data[field.name])
    except (ValueError, TypeError) as error:
        raise InvalidValue(f"{kind.__name__}.{field.name}: {error}") from error


def _plan_of(kind: Any) -> tuple[_Field, ...]:
    return _plan(kind)


@cache
def _plan(kind: type[Any]) -> tuple[_Field, ...]:
    hints = get_type_hints(kind)
    return tuple(
        _Field(
            field.name, field.default is MISSING and field.default_factory is MISSING, *_converters(hints[field.name])
        )
        for field in fields(kind)
    )


def _converters(hint: Any) -> tuple[Convert, Convert]:
    """(to JSON, from JSON) of one type."""
    if hint is GrantRun:
        return _dump_run, _load_run
    if hint is bytes:
        return bytes.hex, _load_bytes
    if hint in (int, str, bool):
        return _same, _expect(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return to_object, lambda data: from_object(hint, data)
    return _generic(hint)


def _generic(hint: Any) -> tuple[Convert, Convert]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        dump, load = _converters(next(each for each in arguments if each is not type(None)))
        return (lambda value: None if value is None else dump(value)), (lambda v: None if v is None else load(v))
    if origin is tuple:
        return _array(*_converters(arguments[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _numbered(*_converters(arguments[1]))
    raise TypeError(f"no JSON form for {hint}")


def _array(dump: Convert, load: Convert) -> tuple[Convert, Convert]:
    def load_all(data: Any) -> tuple[Any, ...]:
        return tuple(load(each) for each in _expect(list)(data))

    return (lambda values: [dump(each) for each in values]), load_all


def _numbered(dump: Convert, load: Convert) -> tuple[Convert, Convert]:
    def load_all(data: Any) -> dict[int, Any]:
        return {int(key): load(value) for key, value in _expect(dict)(data).items()}

    return (lambda values: {str(key): dump(value) for key, value in values.items()}), load_all


def _same(value: Any) -> Any:
    return value


def _expect(kind: type[Any]) -> Convert:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"{value!r:.60} is not of type {kind.__name__}")
        return value

    return check


def _load_bytes(value: Any) -> bytes:
    return bytes.fromhex(_expect(str)(value))


def _dump_run(run: GrantRun) -> list[int]:
    return [run.epoch, run.counter]


def _load_run(value: Any) -> GrantRun:
    epoch, counter = _expect(list)(value)
    return GrantRun(_expect(int)(epoch), _expect(int)(counter))
