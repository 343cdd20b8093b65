"""Options of `format("fairlead")` as Spark hands them over, and the place that they name; for reading and writing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fairlead.client.address_book import AddressBook, default_file
from fairlead.client.admin import check_url
from fairlead.model.errors import InvalidValue
from fairlead.model.names import parse_stream_path


class Values:
    """The options as they were given, by name in upper or lower case. What they are asked for raises InvalidValue where
    a value has not its form."""

    def __init__(self, given: Mapping[str, str], names: Sequence[str]) -> None:
        """Raises: InvalidValue: an option has none of these names."""
        self._given = {name.lower(): value for name, value in given.items()}
        known = {name.lower() for name in names}
        unknown = sorted(name for name in given if name.lower() not in known)
        if unknown:
            raise InvalidValue(f"option {', '.join(unknown)} is not known; format fairlead has {', '.join(names)}")

    def text(self, name: str) -> str | None:
        """As it was given; None: it was not."""
        return self._given.get(name.lower())

    def list(self, name: str) -> tuple[str, ...] | None:
        """Parts between commas."""
        text = self.text(name)
        return None if text is None else tuple(part.strip() for part in text.split(","))

    def number(self, name: str, low: int) -> int | None:
        """A whole number from `low` on."""
        text = self.text(name)
        if text is None:
            return None
        if not re.fullmatch(r"-?\d{1,18}", text.strip()) or int(text) < low:
            raise InvalidValue(f"option {name} = {text!r}: give a whole number from {low}")
        return int(text)

    def flag(self, name: str, default: bool) -> bool:
        """true or false."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in {"true", "false"}:
            raise InvalidValue(f"option {name} = {text!r}: give true or false")
        return text.lower() == "true"


def place_of(values: Values, variables: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The stream's local path, and addresses of its cluster.

    Raises:
        InvalidValue
        UnknownCluster: it is not in `clusters.toml`, and there is no `server`.
    """
    text = values.text("path")
    if not text:
        raise InvalidValue("option path is missing: the stream, for example /mapr/sanfrancisco/ships")
    path = parse_stream_path(text)
    server = values.list("server")
    if server:
        return path.path, tuple(check_url(url) for url in server)
    book = AddressBook(default_file(variables))
    cluster = book.default() if path.cluster is None else book.find(path.cluster)
    return path.path, cluster.http
