"""JSON in one strict way: a text is read as a value of a kind, or refused with the field that is wrong.

The annotations of a dataclass are its format; pydantic reads and writes by them:

    int, str, bool, float     themselves; a bool is no int, and neither are 1.0 and "1"
    Natural                   an int from 0 on
    bytes                     hex digits
    Id                        hex digits of 16 bytes
    X | None                  null or X
    tuple[X, ...], frozenset  array
    Mapping[int, X]           object with decimal keys
    a dataclass               object of its fields; `from_` stands as `from`
    Annotated[X, WHOLE]       the same, but fields with a default must be there too
    Annotated[X, AS_ARRAY]    array of the fields of the dataclass X
    Words                     text for people; bytes in it that are no UTF-8 become escapes, and stay so
    FileName                  itself; a 0 and hex digits if it is no UTF-8, as names of files may be
    Annotated[X, AsText(f)]   text: `str` of the value, read by `f`; also for the keys of an object
    Any                       any JSON value

If a field stands twice, the last one counts. Texts are UTF-8 and nest at most 200 deep. pydantic is imported when the
first text is read or written: processes that read none do not pay for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Literal, TypeVar, get_type_hints

from annotated_types import Ge, Len

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, TypeAdapter, ValidationError
    from pydantic_core import CoreSchema

T = TypeVar("T")
Natural = Annotated[int, Ge(0)]
Id = Annotated[bytes, Len(16, 16)]


class Unreadable(ValueError):
    """The text is not JSON of the expected kind."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}" if place else why)
        self.place = place
        """Place of the fault, such as `source.urls.0`; empty: the outermost object."""
        self.why = why


class NotAnObject(Unreadable):
    """The text is not JSON, or is a value other than an object."""


class OtherVersion(Unreadable):
    """The head has a version that this program does not know, so the other fields are not judged."""

    def __init__(self, version: object) -> None:
        super().__init__("", f"is of version {version}")
        self.version = version


class JsonForm(Generic[T]):
    """How the values of one kind are written in JSON.

    Args:
        kind: type of the values, most often a dataclass.
        head: fields that come first and say what the object is, such as `{"v": 1}`; they are no part of the value. A
            kind with a head has no `__post_init__`, since that would be given them.
        unknown: a field that the kind does not have is passed over (`ignore`) or refused (`forbid`), however deep.
        whole: fields of the kind that have a default must be there too.
        rest: field of the kind, a mapping, that takes what `ignore` passes over of the outermost object; when the value
            is written it stands there again, behind the other fields.
        ascii: characters outside ASCII are written as escapes.
        sparse: fields that have their default are not written.
    """

    def __init__(
        self,
        kind: type[T],
        *,
        head: Mapping[str, str | int] | None = None,
        unknown: Literal["ignore", "forbid"] = "ignore",
        whole: bool = False,
        rest: str = "",
        ascii: bool = True,
        sparse: bool = False,
    ) -> None:
        self.kind = kind
        self._head = head or {}
        self._unknown: Literal["ignore", "forbid"] = unknown
        self._whole = whole
        self._rest = rest
        self._ascii = ascii
        self._sparse = sparse
        self._start = json.dumps(self._head, separators=(",", ":"))[:-1].encode() + b"," if head else b""

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        from pydantic import ConfigDict, TypeAdapter, with_config

        config = ConfigDict(val_json_bytes="hex", ser_json_bytes="hex", alias_generator=_field_name)
        if not is_dataclass(self.kind):
            return TypeAdapter(self.kind, config=config)
        kind: Any = Annotated[with_config(config)(self.kind), _Object(self._head, self._whole, self._rest)]
        return TypeAdapter(kind)

    def prepare(self) -> None:
        """Do now the work that the first reading or writing would do (some milliseconds)."""
        assert self._adapter

    def write(self, value: T) -> bytes:
        """The text of a value."""
        text = self._adapter.dump_json(value, by_alias=True, ensure_ascii=self._ascii, exclude_defaults=self._sparse)
        if self._rest and (rest := getattr(value, self._rest)):
            more = json.dumps(rest, separators=(",", ":"), ensure_ascii=self._ascii, allow_nan=False)
            text = text[:-1] + (b"," if len(text) > 2 else b"") + more[1:].encode()
        if self._start and text == b"{}":
            return self._start[:-1] + b"}"
        return self._start + text[1:] if self._start else text

    def read(self, text: str | bytes) -> T:
        """The value in a text.

        Raises:
            Unreadable: the text holds no such value.
        """
        try:
            value = self._adapter.validate_json(text, strict=True, extra=self._unknown)
        except ValueError as error:
            raise _refusal(error, self._head) from error  # type: ignore[arg-type]
        if self._rest and (rest := self._rest_of(text)):
            object.__setattr__(value, self._rest, rest)
        return value

    @cached_property
    def _known(self) -> frozenset[str]:
        kind: Any = self.kind
        return frozenset({*self._head, *(_field_name(each.name) for each in fields(kind) if each.name != self._rest)})

    def _rest_of(self, text: str | bytes) -> dict[str, Any]:
        """The fields of the outermost object that the kind does not have."""
        from pydantic_core import from_json

        try:
            found: dict[str, Any] = from_json(text, allow_inf_nan=False)
        except ValueError as error:
            raise Unreadable("", f"not JSON: {error}") from error
        return {name: value for name, value in found.items() if name not in self._known}

    def to_plain(self, value: T) -> dict[str, Any]:
        """The object of a value, as `json.loads` would give it."""
        return {**self._head, **self._adapter.dump_python(value, mode="json", by_alias=True)}

    def from_plain(self, found: object) -> T:
        """The inverse of `to_plain`. Raises: Unreadable."""
        return self.read(json.dumps(found))


class _Object:
    """Marks a dataclass whose pydantic schema gets a head, and the fields that must be there."""

    def __init__(self, head: Mapping[str, str | int], whole: bool, rest: str = "") -> None:
        self._head = head
        self._whole = whole
        self._rest = rest

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> Any:
        from pydantic_core import core_schema

        schema: Any = handler.resolve_ref_schema(handler(kind))
        fields = schema["schema"]["fields"]
        for field in fields:
            if field["name"] == self._rest:
                # No name that another program would give a field: this one is filled by hand.
                field |= {"validation_alias": f"\0{self._rest}", "serialization_exclude": True}
            elif self._whole and field["schema"]["type"] == "default":
                field["schema"] = field["schema"]["schema"]
        for name, value in self._head.items():
            fields.append(core_schema.dataclass_field(name, core_schema.literal_schema([value]), init_only=True))
        return schema


WHOLE: Final = _Object({}, whole=True)


class _AsArray:
    """Marks a dataclass (of two fields or more) that stands as the array of its fields."""

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        hints = get_type_hints(kind, include_extras=True)
        array = core_schema.tuple_schema([handler.generate_schema(hint) for hint in hints.values()])
        return core_schema.no_info_after_validator_function(
            lambda values: kind(*values),
            array,
            serialization=core_schema.plain_serializer_function_ser_schema(attrgetter(*hints), return_schema=array),
        )


class AsText:
    """Marks a value that is written as text by `show` and read by `parse`. A ValueError of `parse` becomes Unreadable;
    other errors pass through."""

    def __init__(self, parse: Callable[[str], object], show: Callable[[Any], str] = str) -> None:
        self._parse = parse
        self._show = show

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(
            self._parse,
            core_schema.str_schema(),
            serialization=core_schema.plain_serializer_function_ser_schema(self._show),
        )


AS_ARRAY: Final = _AsArray()


def _show_words(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _show_name(name: str) -> str:
    return name if _show_words(name) == name else "\0" + os.fsencode(name).hex()


def _parse_name(text: str) -> str:
    return os.fsdecode(bytes.fromhex(text[1:])) if text.startswith("\0") else text


Words = Annotated[str, AsText(str, _show_words)]
FileName = Annotated[str, AsText(_parse_name, _show_name)]


def _field_name(name: str) -> str:
    return name.removesuffix("_")


def _refusal(error: ValidationError, head: Mapping[str, Any]) -> Unreadable:
    found = error.errors(include_url=False)
    for each in found:
        if each["type"] == "literal_error" and len(each["loc"]) == 1 and each["loc"][0] in head:
            return OtherVersion(each["input"])
    first = next((each for each in found if each["type"] == "unexpected_keyword_argument"), found[0])
    if first["type"] == "json_invalid":
        return NotAnObject("", f"not JSON: {first['ctx']['error']}")
    if not first["loc"]:
        return NotAnObject("", f"not a JSON object but {type(first['input']).__name__}")
    *around, last = map(str, first["loc"])
    if first["type"] == "missing":
        return Unreadable(".".join(around), f"field {last!r} is missing")
    if first["type"] == "unexpected_keyword_argument":
        return Unreadable(".".join(around), f"unknown field {last!r}; is the other side a newer version?")
    return Unreadable(".".join((*around, last)), f"{first['input']!r:.60}: {first['msg']}")
