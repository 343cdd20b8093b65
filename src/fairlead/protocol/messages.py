"""The messages that are not hot, by kio's codec: read a request, build an answer from plain values.

A handler answers with a mapping of field names (kio's: Kafka's in snake_case) to values, nested mappings and lists
included. Fields that the version in use does not have are left out, fields that were not given take their default,
so a handler is written once for all versions.
"""

from __future__ import annotations

import datetime
import io
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple, Union, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from fairlead.model.errors import FairleadError
from fairlead.protocol.wire import Malformed

Fields = Mapping[str, Any]
"""An answer, or a part of one, before it is packed for a version."""


class _Field(NamedTuple):
    name: str
    entity: Any
    """The dataclass of a nested message; None for plain values."""
    array: bool
    default: Any
    """MISSING: the field must be given."""


def known_versions(api_key: int) -> range:
    """The versions of an API that kio can read and write."""
    versions = schema_name_map[api_key_map[api_key]]
    served = [version for version, entities in versions.items() if EntityType.request in entities]
    return range(min(served), max(served) + 1)


def api_name(api_key: int) -> str:
    """The API's name as kio spells it, for messages."""
    return api_key_map.get(api_key, f"api {api_key}")


def request_header_flexible(api_key: int, version: int) -> bool:
    """The request's header ends in tagged fields (header version 2)."""
    return _header_flexible(load_request_schema(api_key, version))


def response_header_flexible(api_key: int, version: int) -> bool:
    """The answer's header ends in tagged fields (header version 1); never for ApiVersions (KIP-511)."""
    return _header_flexible(load_response_schema(api_key, version))


def _header_flexible(schema: Any) -> bool:
    return bool(schema.__header_schema__.__flexible__)


def read_request(api_key: int, version: int, body: memoryview | bytes) -> Any:
    """The request as kio's frozen dataclass of that version.

    Raises:
        Malformed: the bytes are not such a request.
    """
    reader = entity_reader(load_request_schema(api_key, version))
    try:
        request, _ = reader(body, 0)
    except FairleadError:
        raise
    except Exception as error:  # kio raises many kinds for hostile bytes; all mean the same here
        raise Malformed(f"{api_name(api_key)} request v{version} cannot be read: {error}") from error
    return request


def write_response(api_key: int, version: int, answer: Fields) -> bytes:
    """The body of an answer; see the module's docstring for `answer`.

    Raises:
        KeyError: a field without a default was not given; a fault of the handler.
    """
    schema = load_response_schema(api_key, version)
    buffer = io.BytesIO()
    entity_writer(schema)(buffer, build(schema, answer))
    return buffer.getvalue()


def build(schema: Any, values: Fields) -> Any:
    """A kio entity of class `schema` from plain values.

    Raises:
        KeyError: a field without a default was not given.
    """
    return schema(**{field.name: _value(schema, field, values) for field in _plan(schema)})


def _value(schema: Any, field: _Field, values: Fields) -> Any:
    if field.name not in values:
        if field.default is MISSING:
            raise KeyError(f"{schema.__name__}.{field.name} was not given")
        return field.default
    value = values[field.name]
    if value is None or field.entity is None:
        return tuple(value) if field.array and value is not None else value
    if field.array:
        return tuple(build(field.entity, item) for item in _items(value))
    return build(field.entity, value)


def _items(value: Any) -> Iterable[Fields]:
    items: Iterable[Fields] = value
    return items


@cache
def _plan(schema: Any) -> tuple[_Field, ...]:
    return tuple(_planned(field.name, field.type, field.default) for field in fields(schema))


def _planned(name: str, annotation: Any, default: Any) -> _Field:
    kinds = get_args(annotation) if get_origin(annotation) in {types.UnionType, Union} else (annotation,)
    optional = type(None) in kinds
    (kind,) = [kind for kind in kinds if kind is not type(None)][:1]
    array = get_origin(kind) is tuple
    inner = get_args(kind)[0] if array else kind
    entity = inner if is_dataclass(inner) else None
    if default is MISSING:
        default = _implied(name, optional, array)
    return _Field(name, entity, array, default)


def _implied(name: str, optional: bool, array: bool) -> Any:
    if name == "throttle_time":
        return datetime.timedelta(0)
    if optional:
        return None
    return () if array else MISSING
