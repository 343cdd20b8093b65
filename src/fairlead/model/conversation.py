"""Messages of a conversation as text: JSON objects with the name of their kind as `type`, read strictly.

Each side says messages of some kinds (`Kinds`), which are frozen dataclasses. `to_json` and `from_json` are each
other's inverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fairlead.model.errors import InvalidValue
from fairlead.model.strict_json import JsonForm, NotAnObject, Unreadable

T = TypeVar("T")
Kinds = Mapping[str, JsonForm[Any]]
"""What one side of a connection says, by `type`."""


@dataclass(frozen=True, slots=True)
class _Head:
    """What every message has."""

    type: Any = None


_HEAD: Final = JsonForm(_Head)


def kinds_of(kinds: Mapping[str, type[Any]]) -> Kinds:
    """The messages of one side, by the names of their kinds."""
    return {name: JsonForm(kind, head={"type": name}, unknown="forbid") for name, kind in kinds.items()}


def to_json(message: object, kinds: Kinds) -> str:
    """The text of a message of one side."""
    return next(form for form in kinds.values() if form.kind is type(message)).write(message).decode()


def from_json(text: str | bytes, kinds: Kinds) -> Any:
    """Read a text message of one direction of one connection, for example `from_json(text, READER_SAYS)`.

    Raises:
        InvalidValue: not JSON, another `type`, or a field that is missing, unknown or of another type.
    """
    name = read(text, _HEAD).type
    form = kinds.get(name) if isinstance(name, str) else None
    if form is None:
        raise InvalidValue(f"message of type {name!r}: expected one of {', '.join(sorted(kinds))}")
    return read(text, form)


def read(text: str | bytes, form: JsonForm[T]) -> T:
    """Read what another process has written. Raises: InvalidValue, which names the kind and the field."""
    try:
        return form.read(text)
    except NotAnObject as error:
        raise InvalidValue(f"message is {error}") from error
    except Unreadable as error:
        where = f"{form.kind.__name__}.{error.place}" if error.place else form.kind.__name__
        raise InvalidValue(f"{where}: {error.why}") from error


def prepare_forms(forms: Iterable[JsonForm[Any]]) -> None:
    """Load what reading and writing these needs, for a process whose forks are to share it."""
    for form in (_HEAD, *forms):
        form.prepare()
