"""Errors over HTTP: one place that maps the kinds of `model/errors.py` to a status, a number and a code, and back.

An error travels in the original's envelope, with `code` added for programs:

    {"timestamp": …, "timeofday": "…", "status": "ERROR", "errors": [{"id": 2, "desc": "…", "code": "unknown_stream"}]}

`id` is a number of errno, as in the original; `code` is the name of the error's class in snake case.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from fairlead.model import errors as kinds
from fairlead.model.errors import FairleadError, InvalidValue

_TABLE: tuple[tuple[type[FairleadError], int, int], ...] = (
    (kinds.NotFound, 404, errno.ENOENT),
    (kinds.AlreadyExists, 409, errno.EEXIST),
    (kinds.NotAllowed, 403, errno.EACCES),
    (kinds.NotImplementedYet, 501, errno.ENOSYS),
    (kinds.BatchTooLarge, 413, errno.EMSGSIZE),
    (kinds.BadRequest, 400, errno.EINVAL),
    (kinds.StorageFull, 507, errno.ENOSPC),
    (kinds.StorageUnavailable, 503, errno.EIO),
    (kinds.Unreachable, 502, errno.EHOSTUNREACH),
    (kinds.Moved, 421, errno.EREMCHG),
    (kinds.Busy, 429, errno.EAGAIN),
    (kinds.TryAgain, 503, errno.EAGAIN),
    (kinds.Unanswered, 504, errno.ETIMEDOUT),
    (kinds.Fenced, 503, errno.ESTALE),
    (kinds.Damaged, 500, errno.EIO),
    (kinds.Closed, 503, errno.ESHUTDOWN),
    (FairleadError, 500, errno.EIO),
)
"""Kind, HTTP status, errno; the first kind that fits counts."""


DESCRIPTION_LENGTH_MAX = 10_000
"""Of an error that another program tells: it is kept, logged and shown."""


def http_status(error: FairleadError) -> int:
    """The HTTP status that says the kind of an error."""
    return _row(error)[1]


def code_of(error: FairleadError) -> str:
    """The error's class in snake case: `unknown_stream`."""
    return _code(type(error))


def envelope(data: Iterable[Mapping[str, Any]], now_ms: int) -> dict[str, Any]:
    """The original's answer to a call that went well."""
    rows = list(data)
    return {**_head(now_ms), "status": "OK", "total": len(rows), "data": rows}


def error_envelope(error: FairleadError, now_ms: int) -> dict[str, Any]:
    """The original's answer to a call that failed."""
    entry: dict[str, Any] = {"id": _row(error)[2], "desc": str(error), "code": code_of(error)}
    if isinstance(error, kinds.Moved):
        entry["urls"] = list(error.urls)
    return {**_head(now_ms), "status": "ERROR", "errors": [entry]}


def to_error(answer: Mapping[str, Any]) -> FairleadError:
    """The error in an envelope; anything that is no envelope becomes an `InvalidValue` that shows it."""
    try:
        entry = answer["errors"][0]
        code, desc = str(entry.get("code", "")), str(entry["desc"])[:DESCRIPTION_LENGTH_MAX]
        if code == _code(kinds.Moved):
            return kinds.Moved(desc, [str(url) for url in entry.get("urls", ())])
        return _class_of(code)(desc)
    except (LookupError, TypeError, AttributeError):
        return InvalidValue(f"an answer that is not understood: {str(answer)[:200]}")


def time_of_day(now_ms: int) -> str:
    """A time as the original writes it: `2026-11-20 12:40:01.123 GMT+0000 PM`."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{now_ms % 1000:03d} GMT+0000 {moment:%p}"


def _head(now_ms: int) -> dict[str, Any]:
    return {"timestamp": now_ms, "timeofday": time_of_day(now_ms)}


def _row(error: FairleadError) -> tuple[type[FairleadError], int, int]:
    return next(row for row in _TABLE if isinstance(error, row[0]))


def _code(kind: type[FairleadError]) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()


def _class_of(code: str) -> type[FairleadError]:
    """The class of a code, or its nearest parent that is built from only a message."""
    kind: type[FairleadError] = _classes().get(code, FairleadError)
    while kind.__init__ is not FairleadError.__init__:
        kind = kind.__mro__[1]
    return kind


@cache
def _classes() -> dict[str, type[FairleadError]]:
    return {_code(kind): kind for kind in _walk(FairleadError)}


def _walk(kind: type[FairleadError]) -> Iterator[type[FairleadError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _walk(child)
