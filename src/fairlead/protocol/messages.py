"""The messages that are not hot, as kio's classes: read a request or an answer, build either from plain values.

What others sent is read here, field by field as kio's classes say, and not by kio's own reader. That reader trusts the
lengths that it reads (kio 0.6.5: a few hostile bytes make it ask for more memory than there is, which ends the
process); here every length is checked against the bytes that are there. What is ours kio writes.

A handler answers with a mapping of field names (kio's: Kafka's in snake_case) to values, which may be nested mappings
and lists. Fields that the version in use lacks are left out, and fields that were not given take their default, so a
handler is written once for all versions. A client asks with such a mapping too.
"""

from __future__ import annotations

import functools
import io
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer
from kio.static.constants import EntityType

from fairlead.protocol.schema import FieldPlan, plan
from fairlead.protocol.wire import TAGGED_FIELDS, ZERO_UUID, Malformed, Reader, check_items

Fields = Mapping[str, Any]
"""An answer, or a part of one, before it is packed for a version."""
ANSWER_ITEMS_MAX: Final = 2_000_000
"""Items of one kind in an answer that is read: more than any cluster has partitions, each some hundred bytes here."""
Pause = Callable[[], None]
"""Called before each item of an array, so that whoever reads or writes a long one on a thread can rest."""


def no_pause() -> None:
    """What is short is done in one go."""


def known_versions(api_key: int) -> range:
    """The versions of an API that kio can read and write."""
    versions = schema_name_map[api_key_map[api_key]]
    served = [version for version, entities in versions.items() if EntityType.request in entities]
    return range(min(served), max(served) + 1)


def api_name(api_key: int) -> str:
    """The API's name as kio spells it, for messages."""
    return api_key_map.get(api_key, f"api {api_key}")


@functools.cache
def request_header_flexible(api_key: int, version: int) -> bool:
    """Whether the request's header ends in tagged fields (header version 2)."""
    return _header_flexible(load_request_schema(api_key, version))


@functools.cache
def response_header_flexible(api_key: int, version: int) -> bool:
    """Whether the answer's header ends in tagged fields (header version 1); never for ApiVersions (KIP-511)."""
    return _header_flexible(load_response_schema(api_key, version))


def _header_flexible(schema: Any) -> bool:
    return bool(schema.__header_schema__.__flexible__)


# Requests


class _Items:
    """The items of a message's arrays, while it is read."""

    def __init__(self, pause: Pause) -> None:
        self._counts: Counter[str] = Counter()
        self.pause = pause

    def add(self, kind: str, count: int) -> None:
        """So many more of a kind. Raises: Malformed."""
        self._counts[kind] += count
        self._check(kind, self._counts[kind])

    def _check(self, kind: str, count: int) -> None:
        check_items(kind, count)


class _AnswerItems(_Items):
    """Of an answer: a question of a few bytes may have a long one."""

    def _check(self, kind: str, count: int) -> None:
        if count > ANSWER_ITEMS_MAX:
            raise Malformed(f"an answer has more than {ANSWER_ITEMS_MAX:,} {kind.replace('_', ' ')}")


def read_request(api_key: int, version: int, body: memoryview | bytes, pause: Pause = no_pause) -> Any:
    """The request as kio's frozen dataclass of that version.

    Raises:
        Malformed: the bytes are not such a request; TooManyItems is one of a kind.
    """
    schema = load_request_schema(api_key, version)
    return _read_entity(Reader(body, schema.__flexible__), schema, _Items(pause))


def _read_entity(reader: Reader, schema: Any, items: _Items) -> Any:
    values = {field.name: _read_field(reader, field, items) for field in plan(schema) if field.tag is None}
    if reader.flexible:
        _read_tags(reader, {field.tag: field for field in plan(schema) if field.tag is not None}, values, items)
    for field in plan(schema):
        if field.tag is not None:
            values.setdefault(field.name, field.default)
    return schema(**values)


def _read_tags(reader: Reader, known: Mapping[int | None, FieldPlan], values: dict[str, Any], items: _Items) -> None:
    tags = reader.tags()
    items.add(TAGGED_FIELDS, len(tags))  # also those within others, which have a reader of their own
    for _ in tags:
        items.pause()
        tag = reader.uvarint()
        data = reader.take(reader.uvarint())
        field = known.get(tag)
        if field is not None:
            values[field.name] = _read_field(Reader(data, reader.flexible), field, items)


def _read_field(reader: Reader, field: FieldPlan, items: _Items) -> Any:
    if not field.array:
        return _read_one(reader, field, items)
    length = reader.array_length()
    if length < 0:
        if not field.nullable:
            raise Malformed(f"the array {field.name} is null")
        return None
    items.add(field.name, length)
    read: list[Any] = []
    for _ in range(length):
        items.pause()
        read.append(_read_one(reader, field, items))
    return tuple(read)


def _read_one(reader: Reader, field: FieldPlan, items: _Items) -> Any:
    nullable = field.nullable and not field.array
    if field.entity is not None:
        return None if nullable and reader.int8() < 0 else _read_entity(reader, field.entity, items)
    value = _PRIMITIVES[field.kind](reader)
    if value is None and not nullable and field.kind != "uuid":
        raise Malformed(f"the field {field.name} is null")
    return value


def _bytes(reader: Reader) -> bytes | None:
    data = reader.nullable_bytes()
    return None if data is None else bytes(data)


def _uuid(reader: Reader) -> UUID | None:
    data = reader.uuid()
    return None if data == ZERO_UUID else UUID(bytes=data)


def _timedelta(milliseconds: int) -> timedelta:
    try:
        return timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise Malformed(f"{milliseconds} ms is no length of time") from None


def _error_code(code: int) -> ErrorCode:
    """A code that kio does not know, of a newer broker, is an error that nobody knows."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.unknown_server_error


def _datetime(milliseconds: int) -> datetime | None:
    """Kio's form of a moment; -1 is none."""
    try:
        return None if milliseconds == -1 else datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise Malformed(f"{milliseconds} ms since 1970 is no moment") from None


_FLOAT64 = struct.Struct(">d")
_UINT16 = struct.Struct(">H")

_PRIMITIVES: Mapping[str, Callable[[Reader], Any]] = {
    "bool": Reader.boolean,
    "bytes": _bytes,
    "datetime_i64": lambda reader: _datetime(reader.int64()),
    "error_code": lambda reader: _error_code(reader.int16()),
    "float64": lambda reader: reader.numbers(_FLOAT64)[0],
    "int8": Reader.int8,
    "int16": Reader.int16,
    "int32": Reader.int32,
    "int64": Reader.int64,
    "records": _bytes,
    "string": Reader.nullable_string,
    "timedelta_i32": lambda reader: _timedelta(reader.int32()),
    "timedelta_i64": lambda reader: _timedelta(reader.int64()),
    "uint16": lambda reader: reader.numbers(_UINT16)[0],
    "uuid": _uuid,
}


# Answers, and requests of ours


def read_response(api_key: int, version: int, body: memoryview | bytes, pause: Pause = no_pause) -> Any:
    """The answer as kio's frozen dataclass of that version.

    Raises:
        Malformed: the bytes are not such an answer.
    """
    schema = load_response_schema(api_key, version)
    return _read_entity(Reader(body, schema.__flexible__), schema, _AnswerItems(pause))


def write_request(api_key: int, version: int, request: Fields) -> bytes:
    """The body of a request of ours; fields that the version lacks are left out.

    Raises:
        KeyError: a field without a default was not given; a fault of the caller.
    """
    schema = load_request_schema(api_key, version)
    buffer = io.BytesIO()
    entity_writer(schema)(buffer, build(schema, request))
    return buffer.getvalue()


def write_response(api_key: int, version: int, answer: Fields, pause: Pause = no_pause) -> bytes:
    """The body of an answer; see the module's docstring for `answer`.

    Raises:
        KeyError: a field without a default was not given; a fault of the handler.
    """
    schema = load_response_schema(api_key, version)
    buffer = io.BytesIO()
    entity_writer(schema)(buffer, build(schema, answer, pause))
    return buffer.getvalue()


def write_failure(api_key: int, version: int, error: ErrorCode) -> bytes | None:
    """An answer that says only that the whole request failed; None where that version has no place for it."""
    schema = load_response_schema(api_key, version)
    if all(field.name != "error_code" for field in plan(schema)):
        return None
    try:
        return write_response(api_key, version, {"error_code": error})
    except KeyError:
        return None


def build(schema: Any, values: Fields, pause: Pause = no_pause) -> Any:
    """One of kio's messages, of class `schema`, from plain values. Its arrays are built when they are iterated.

    Raises:
        KeyError: a field without a default was not given.
    """
    return schema(**{field.name: _value(schema, field, values, pause) for field in plan(schema)})


def _value(schema: Any, field: FieldPlan, values: Fields, pause: Pause) -> Any:
    if field.name not in values:
        if field.default is MISSING:
            raise KeyError(f"{schema.__name__}.{field.name} was not given")
        return field.default
    value = values[field.name]
    if value is None or field.entity is None:
        return tuple(value) if field.array and value is not None else value
    if field.array:
        return _Built(field.entity, value, pause)
    return build(field.entity, value, pause)


class _Built:
    """An array of an answer, whose items are built one at a time as they are written. A hundred thousand of them would
    be let go of in one step, which keeps Python's lock from everybody else for 30 ms."""

    def __init__(self, schema: Any, items: Collection[Fields], pause: Pause) -> None:
        self._schema = schema
        self._items = items
        self._pause = pause

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        for item in self._items:
            self._pause()
            yield build(self._schema, item, self._pause)
