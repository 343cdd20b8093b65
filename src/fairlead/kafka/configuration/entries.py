"""The entries of a property file while they are read: each by its key, with what it may be."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from fairlead.model.errors import InvalidValue

INT_MAX: Final = 2**31 - 1


class Entries:
    """Remembers which keys were asked for. `where` names the file in messages."""

    def __init__(self, given: Mapping[str, str], where: str) -> None:
        self.given = given
        self.where = where
        self.warnings: list[str] = []
        self._asked: set[str] = set()

    def text(self, key: str, default: str | None = None) -> str | None:
        """The value without spaces around it; an empty one counts as none."""
        self._asked.add(key)
        return self.given.get(key, "").strip() or default

    def is_empty(self, key: str) -> bool:
        """Whether it is there, with nothing in it."""
        self._asked.add(key)
        return key in self.given and not self.given[key].strip()

    def number(self, key: str, default: int, lowest: int = 0, highest: int = INT_MAX) -> int:
        """Raises: InvalidValue: no whole number of that range."""
        text = self.text(key)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            raise self.wrong(key, f"is {text!r}; write a whole number") from None
        if not lowest <= value <= highest:
            raise self.wrong(key, f"is {value:,}; it may be from {lowest:,} to {highest:,}")
        return value

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """One of the choices, however it is cased. Raises: InvalidValue."""
        text = self.text(key, default) or default
        for each in choices:
            if each.lower() == text.lower():
                return each
        raise self.wrong(key, f"is {text!r}; it may be {', '.join(choices)}")

    def wrong(self, key: str, why: str) -> InvalidValue:
        """The error for a key."""
        return InvalidValue(f"{self.where}: {key} {why}")

    def warn(self, key: str, why: str) -> None:
        """Something that a person should know."""
        self.warnings.append(f"{self.where}: {key} {why}")

    def warn_of_others(self, known: Collection[str], prefixes: Sequence[str] = ()) -> None:
        """Of keys that nobody asked for: Kafka's own, which are `known`, and others."""
        for key in self.given.keys() - self._asked:
            if key in known or key.startswith(tuple(prefixes)):
                self.warn(key, "has no effect here")
            else:
                self.warn(key, "is no setting that Kafka's clients have; is it misspelt?")
        self.warnings.sort()
