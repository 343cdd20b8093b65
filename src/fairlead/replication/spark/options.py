"""Options of the format `fairlead.link`, as text through Spark and as values in the tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from fairlead.model.errors import InvalidValue


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """What a task must know. Everything else comes from the source server with the grants."""

    server: str
    """HTTP address of the source server, for example `http://127.0.0.1:7660`."""
    secret_file: str = ""
    """Where that server's secret for control connections is. What is in it never passes through Spark."""
    workers: int = 2
    """Tasks of a round."""
    round_seconds: float = 60.0
    slots: int = 4096
    """How many grants one worker takes at a time. A grant that none takes waits for ever, so this is far above 64
    replicas of a stream; what grants may hold is bounded for all of a worker together."""
    frame_bytes: int = 4_000_000
    window_bytes: int = 32_000_000
    position_bytes: int = 64_000_000
    once: bool = False
    """End when everything announced has been applied, not at the end of the round."""

    def to_texts(self) -> dict[str, str]:
        """For `DataStreamReader.options`."""
        return {name: str(value) for name, value in asdict(self).items()}

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> LinkOptions:
        """The inverse; unknown options are left alone, as Spark adds its own.

        Raises:
            InvalidValue: `server` is missing, or a number is no number.
        """
        if "server" not in texts:
            raise InvalidValue("format fairlead.link: give the option `server`, the source server's HTTP address")
        known = {field.name: texts[field.name] for field in fields(cls) if field.name in texts}
        return cls(**{name: _value(name, text) for name, text in known.items()})


def _value(name: str, text: str) -> Any:
    kind = {"server": str, "secret_file": str, "round_seconds": float, "once": _truth}.get(name, int)
    try:
        return kind(text)  # type: ignore[operator]
    except ValueError as error:
        raise InvalidValue(f"format fairlead.link: option {name}={text!r} is not a number") from error


def _truth(text: str) -> bool:
    return text.lower() == "true"
