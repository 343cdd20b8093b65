"""What a command of the admin interface is: one description, from which the REST route, its OpenAPI and the command
line's options are all made, so that they cannot differ.

Values arrive as text (query, form, command line) or as JSON; `Command.parse` checks them. An option of the original
that is not built has `only`: the values that change nothing are accepted, every other is refused, never ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fairlead.client.admin import Method, check_url
from fairlead.client.booleans import FALSE, TRUE
from fairlead.model.errors import InvalidValue, NotImplementedYet
from fairlead.model.names import (
    StreamPath,
    check_cluster_name,
    check_text,
    check_topic_name,
    parse_source_path,
    parse_stream_path,
)
from fairlead.model.shown import shown

ParameterKind = Literal["stream", "source", "topic", "text", "number", "boolean"]

CLUSTERS = "clusters"
"""Parameter of every call: the URLs of the other clusters it names, {"newyork": ["http://…"]}."""


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter. `default` is what is shown; a handler sees None where nothing was given."""

    name: str
    kind: ParameterKind
    what: str
    required: bool = False
    default: str | None = None
    only: tuple[str, ...] | None = None
    called: bool = True
    """Of a stream: its cluster may have to be called, so the call brings its addresses."""

    def parse(self, value: object) -> Any:
        """The value as its kind: StreamPath, str, int or bool.

        Raises:
            InvalidName, InvalidValue, NotImplementedYet.
        """
        text = _as_text(value)
        if self.only is not None and text.lower() not in self.only:
            raise NotImplementedYet(f"-{self.name} {shown(text)}")
        return self._convert(text)

    def _convert(self, text: str) -> Any:
        match self.kind:
            case "stream":
                return parse_stream_path(text)
            case "source":
                return parse_source_path(text)
            case "topic":
                return check_topic_name(text)
            case "number":
                return self._number(text)
            case "boolean":
                return self._boolean(text)
        return check_text(text, f"-{self.name} {text!r}:")

    def _number(self, text: str) -> int:
        try:
            return int(text)
        except ValueError as error:
            raise InvalidValue(f"-{self.name} {text!r}: give a whole number") from error

    def _boolean(self, text: str) -> bool:
        if text.lower() in TRUE:
            return True
        if text.lower() in FALSE:
            return False
        raise InvalidValue(f"-{self.name} {text!r}: give true or false")


@dataclass(frozen=True, slots=True)
class Given:
    """Checked parameters of one call."""

    values: Mapping[str, Any]
    clusters: Mapping[str, tuple[str, ...]]

    def __getitem__(self, name: str) -> Any:
        return self.values.get(name)

    def named(self, **names: str) -> dict[str, Any]:
        """The values that were given, under other names: `named(ttl="ttl_seconds")`."""
        return {new: self.values[old] for old, new in names.items() if old in self.values}


@dataclass(frozen=True, slots=True)
class Command:
    """One verb of one noun."""

    noun: tuple[str, ...]
    verb: str
    what: str
    params: tuple[Param, ...] = ()
    changes: bool = False
    """It changes something: POST, else GET."""
    asks: str = ""
    """What the command line asks before it goes on; `{path}` and other parameters are filled in."""
    goes_on: str = "the cluster does it all the same, if it was asked already"
    """What the command line says, of a command that changes something, when it is interrupted; filled in likewise."""
    columns: tuple[str, ...] = ()
    """Columns of the command line's table; empty: all, one below the other."""
    built: bool = True
    """False: the original has it, we do not yet; every call of it is refused."""

    @property
    def path(self) -> str:
        """`/rest/<noun>/<verb>`."""
        return "/".join(("/rest", *self.noun, self.verb))

    @property
    def method(self) -> Method:
        return "POST" if self.changes else "GET"

    @property
    def home(self) -> str | None:
        """The parameter whose cluster carries the command out: the first that is a stream."""
        return next((param.name for param in self.params if param.kind in {"stream", "source"}), None)

    def home_of(self, given: Given) -> StreamPath | None:
        """The path whose cluster carries a call out. A Kafka cluster carries nothing out: the replica's does."""
        paths = (given[param.name] for param in self.params if param.kind in {"stream", "source"})
        streams = (each for each in paths if isinstance(each, StreamPath) and each.kafka is None)
        named = given_path(given, self.home)
        return named if named is not None and named.kafka is None else next(streams, None)

    def parse(self, raw: Mapping[str, object]) -> Given:
        """Check the parameters of a call; their names may be in any case.

        Raises:
            InvalidName, InvalidValue, NotImplementedYet: the message names the parameter.
        """
        if not self.built:
            raise NotImplementedYet(self._name)
        given = {name.lower(): value for name, value in raw.items()}
        clusters = _parse_clusters(given.pop(CLUSTERS, None))
        known = {param.name: param for param in self.params}
        for name in given:
            if name not in known:
                raise InvalidValue(f"-{shown(name)}: unknown; {self._name} takes {self._options}")
        for param in self.params:
            if param.required and given.get(param.name) in (None, ""):
                raise InvalidValue(f"-{param.name} is missing; {self._name} takes {self._options}")
        return Given({name: known[name].parse(value) for name, value in given.items() if value is not None}, clusters)

    @property
    def _name(self) -> str:
        return " ".join((*self.noun, self.verb))

    @property
    def _options(self) -> str:
        return ", ".join(f"-{param.name}" for param in self.params) or "no option"


def given_path(given: Given, name: str | None) -> StreamPath | None:
    """A parameter that is a stream's path, if it was given."""
    value = None if name is None else given[name]
    return value if isinstance(value, StreamPath) else None


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    raise InvalidValue(f"{value!r}: give a text, a number or a boolean")


def _parse_clusters(value: object) -> dict[str, tuple[str, ...]]:
    """The URLs of other clusters: a JSON object, or its text."""
    try:
        found: Any = json.loads(value) if isinstance(value, str) else value or {}
        return {check_cluster_name(name): _urls(urls) for name, urls in found.items()}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise InvalidValue(f'-{CLUSTERS}: give {{"name": ["http://HOST:PORT"]}}') from error


def _urls(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(url, str) for url in value):
        raise TypeError("not a list of URLs")
    return tuple(map(check_url, value))
