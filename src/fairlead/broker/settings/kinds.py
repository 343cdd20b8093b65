"""What a value of a setting may be: the kinds of Kafka's `ConfigDef`, with its messages for values that are none."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kio.schema.errors import ErrorCode

from fairlead.broker.errors import RefusedRequest
from fairlead.streamlog.topic_policy import items_of

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
NO_EFFECT: Final = "Kept and shown, without effect here."
_AROUND: Final = "".join(map(chr, range(0x21)))
"""What Java's `String.trim` takes away."""
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,100}")
_REAL: Final = re.compile(r"[+-]?([0-9]{1,100}\.?[0-9]{0,100}|\.[0-9]{1,100})([eE][+-]?[0-9]{1,3})?")
_REPLICAS: Final = re.compile(r"\*|([0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?")


class ConfigType(IntEnum):
    """Kafka's numbers of kinds of values."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


_LARGEST: Final = {ConfigType.INT: INT_MAX, ConfigType.LONG: LONG_MAX}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of Kafka's."""

    type: ConfigType
    default: str
    least: float | None = None
    most: float | None = None
    one_of: tuple[str, ...] = ()
    """The values of a text, or of the items of a list; empty: any."""
    documentation: str = NO_EFFECT
    replicas: bool = False
    """A list of replicas, each PARTITION:BROKER, or `*`."""

    def check(self, name: str, value: str) -> str:
        """The value as it holds: without what stands around it, as Kafka reads it.

        Raises:
            Refused: INVALID_CONFIG, the value is none of this kind.
        """
        trimmed = value.strip(_AROUND)
        why = _CHECKS[self.type](self, trimmed)
        if why is not None:
            raise RefusedRequest(ErrorCode.invalid_config, f"Invalid value {value} for configuration {name}: {why}")
        return trimmed

    def _number(self, text: str) -> str | None:
        largest = _LARGEST.get(self.type)
        if not (_REAL if largest is None else _WHOLE).fullmatch(text):
            return f"Not a number of type {self.type.name}"
        value = float(text) if largest is None else int(text)
        if largest is not None and not -largest - 1 <= value <= largest:
            return f"Not a number of type {self.type.name}"
        if self.least is not None and not value >= self.least:
            return f"Value must be at least {self.least}"
        if self.most is not None and value > self.most:
            return f"Value must be no more than {self.most}"
        return None

    def _boolean(self, text: str) -> str | None:
        return None if text.lower() in {"true", "false"} else "Expected value to be either true or false"

    def _text(self, text: str) -> str | None:
        return None if not self.one_of or text in self.one_of else f"String must be one of: {', '.join(self.one_of)}"

    def _list(self, text: str) -> str | None:
        if self.replicas and not _REPLICAS.fullmatch(",".join(items_of(text))):
            return (
                "must be the literal '*' or a list of replicas: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )
        wrong = next((why for item in items_of(text) if (why := self._text(item)) is not None), None)
        if wrong is None and self.one_of and not items_of(text):
            return f"Name at least one of: {', '.join(self.one_of)}"
        return wrong


_CHECKS: Final[dict[ConfigType, Callable[[Setting, str], str | None]]] = {
    ConfigType.BOOLEAN: Setting._boolean,
    ConfigType.STRING: Setting._text,
    ConfigType.INT: Setting._number,
    ConfigType.LONG: Setting._number,
    ConfigType.DOUBLE: Setting._number,
    ConfigType.LIST: Setting._list,
}
