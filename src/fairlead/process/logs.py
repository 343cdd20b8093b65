"""Log lines of Fairlead's processes: one form for all that comes on standard error, by structlog.

Ours and those of libraries (logging) go the same way. A process that starts others tells them level and form by
variables (`log_variables`); one that reads what another writes hands on its lines (`relay`).
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from fairlead.model.clock import Clock, SystemClock
from fairlead.model.shown import shown

LEVEL: Final = "FAIRLEAD_LOG_LEVEL"
FORM: Final = "FAIRLEAD_LOG_FORMAT"

LINES_A_MINUTE: Final = 30
"""Of one kind, from warnings on: others cause them, by bad connections, as often as they like."""
_KINDS_MAX: Final = 1_000


class LineLimit:
    """Counts lines by kind and minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: dict[str, tuple[int, int]] = {}
        """Minute, and lines that came in it."""

    def left_out(self, kind: str) -> int | None:
        """How many lines of the kind were left out before this one; None: this one is left out too."""
        now = self._clock.monotonic_ms() // 60_000
        minute, count = self._kinds.get(kind, (now, 0))
        missing = 0
        if minute != now:
            missing, count = max(count - LINES_A_MINUTE, 0), 0
        if len(self._kinds) >= _KINDS_MAX:
            self._kinds.clear()
        self._kinds[kind] = (now, count + 1)
        return missing if count < LINES_A_MINUTE else None

    def processor(self, _logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """For our own lines."""
        missing = 0 if method in {"debug", "info"} else self.left_out(str(event.get("event")))
        if missing is None:
            raise structlog.DropEvent
        return {**event, "left_out": missing} if missing else event

    def filter(self, record: logging.LogRecord) -> bool:
        """For those of libraries, by logging."""
        missing = self.left_out(f"{record.name} {record.msg}")
        if missing:
            record.msg = f"{record.msg} ({missing} more were left out)"
        return missing is not None


class _StandardError:
    """Standard error, for log lines: one that cannot be written (a full disk, a reader that has gone) is lost. What is
    logged must not decide what a program does."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._file.flush()


def configure_logs(level: str, form: str = "text") -> None:
    """Write events of `level` (debug, info, warning, error) and above to standard error, also those of libraries.

    `form` is text, or json: one object a line.
    """
    number = _number(level)
    common: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        _shown,
    ]
    last, limit = _last(form), LineLimit(SystemClock())
    standard_error = cast(TextIO, _StandardError(sys.stderr))
    structlog.configure(
        processors=[limit.processor, *common, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(standard_error),
    )
    libraries = [structlog.stdlib.add_logger_name, *([] if number <= logging.DEBUG else [_in_one_line])]
    handler = logging.StreamHandler(standard_error)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*common, *libraries],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    handler.addFilter(limit.filter)
    logging.basicConfig(handlers=[handler], level=max(number, logging.WARNING))


def log_variables(level: str, form: str) -> dict[str, str]:
    """What tells a process that is started how to write."""
    return {LEVEL: level, FORM: form}


def configure_logs_as_told(variables: Mapping[str, str]) -> None:
    """For a process that reads no settings: as the one that started it said."""
    configure_logs(variables.get(LEVEL) or "info", variables.get(FORM) or "text")


def relay(line: str) -> bool:
    """Write an event that another process wrote as JSON in this process's form; False if the line is none."""
    try:
        event = json.loads(line)
        text, level = event.pop("event"), event.pop("level")
    except (ValueError, LookupError, AttributeError, TypeError):
        return False
    event.pop("timestamp", None)
    if "error" in event:
        event["error"] = _line(event["error"])
    fields = {str(name): value for name, value in event.items() if value != ""}
    structlog.get_logger().log(_number(str(level)), _line(text), **fields)
    return True


def _line(text: object) -> str:
    return " ".join(str(text).split())


def _number(level: str) -> int:
    """Of a level's name, also of one that Java has and Python has not."""
    return logging.getLevelNamesMapping().get(level.upper(), logging.DEBUG)


def _last(form: str) -> list[Processor]:
    if form == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=repr)]
    return [
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
        )
    ]


def _shown(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Texts of others command no terminal."""
    return {name: shown(value, breaks=True) if isinstance(value, str) else value for name, value in event.items()}


def _in_one_line(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """A library's error without the way to it; that of our own errors is shown, since they are bugs."""
    error: Any = event.pop("exc_info", None)
    if isinstance(error, tuple):
        error = error[1]
    if isinstance(error, BaseException):
        event["error"] = f"{type(error).__name__}: {_line(error)}".removesuffix(": ")
    return event
