"""The fields of kio's message classes and their kinds, looked up once."""

from __future__ import annotations

import types
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple, Union, get_args, get_origin


class FieldPlan(NamedTuple):
    """One field of a message."""

    name: str
    kind: str
    """Kio's name of a plain type (`int32`, `string` …), or `entity`."""
    entity: Any
    """The class of a nested message; None for plain values."""
    array: bool
    nullable: bool
    tag: int | None
    default: Any
    """The value if none is given; MISSING if one must be given."""


@cache
def plan(schema: Any) -> tuple[FieldPlan, ...]:
    """The fields of one of kio's classes, in the order of their bytes."""
    return tuple(_planned(field.name, field.type, field.metadata, field.default) for field in fields(schema))


def _planned(name: str, annotation: Any, metadata: Any, default: Any) -> FieldPlan:
    kinds = get_args(annotation) if get_origin(annotation) in {types.UnionType, Union} else (annotation,)
    nullable = type(None) in kinds
    kind = next(kind for kind in kinds if kind is not type(None))
    array = get_origin(kind) is tuple
    inner = get_args(kind)[0] if array else kind
    entity = inner if is_dataclass(inner) else None
    if default is MISSING:
        default = _implied(name, nullable, array)
    return FieldPlan(name, metadata.get("kafka_type", "entity"), entity, array, nullable, metadata.get("tag"), default)


def _implied(name: str, nullable: bool, array: bool) -> Any:
    if name == "throttle_time":
        return timedelta(0)
    if nullable:
        return None
    return () if array else MISSING
