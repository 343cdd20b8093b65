"""Questions of a reader to its stream's server; see `gateway/records_routes.py`. Blocking, since Spark calls it so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

import httpx

from fairlead.client.answers import answer_now
from fairlead.model.envelope import to_error
from fairlead.model.errors import InvalidValue, Unreachable
from fairlead.model.strict_json import AS_ARRAY, JsonForm, NotAnObject, Unreadable
from fairlead.streamlog.values import DeadFrom, EpochRange, LogObject, epoch_before
from fairlead.wire.urls import Attempts
from fairlead.wire.waits import CONNECT_SECONDS, RECORDS_SECONDS


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """One shard: commits [begin, end) exist, and these objects hold the commits that were asked for, among them perhaps
    records that their topics' owners have `deleted`: all below an offset, by topic number and partition; and records
    that `cuts` of their partitions have made dead."""

    shard: int
    begin: int
    end: int
    epochs: tuple[Annotated[EpochRange, AS_ARRAY], ...]
    objects: tuple[LogObject, ...]
    deleted: tuple[tuple[int, int, int], ...] = ()
    cuts: tuple[DeadFrom, ...] = ()

    def epoch_id(self, commit: int) -> str:
        """Hex id of the writer epoch that a position before `commit` remembers."""
        return epoch_before(self.epochs, commit).id.hex()

    def knows(self, epoch_id: str, commit: int) -> bool:
        """Whether commit - 1 was written in that epoch: if so, this is the log that was read before."""
        return commit <= self.end and self.epoch_id(commit) == epoch_id


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """A stream, and where its objects lie on this host."""

    stream: str
    path: str
    root: str
    shards: tuple[ShardPlan, ...]


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic: its number in its shard, and the offsets [start, end) of each partition."""

    name: str
    shard: int
    number: int
    partitions: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Topics:
    topics: tuple[TopicPlan, ...]


@dataclass(frozen=True, slots=True)
class _Names:
    names: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class _TopicOffsets:
    shard: int
    number: int
    offsets: list[int]
    """One for each partition."""


@dataclass(frozen=True, slots=True)
class _Offsets:
    topics: tuple[_TopicOffsets, ...]


_PLAN: Final = JsonForm(StreamPlan)
_TOPICS: Final = JsonForm(_Topics)
_NAMES: Final = JsonForm(_Names)
_OFFSETS: Final = JsonForm(_Offsets)
T = TypeVar("T")

NAMES_AT_ONCE = 2_000
"""A server takes 1 MB in one call; a topic's name has up to 249 bytes."""
NUMBERS_AT_ONCE = 40_000
"""The same for numbers of topics, which have up to 19 digits."""


class RecordsClient:
    """Asks about one stream. Raises `Unreachable` if no address answers, or the error that the server answered."""

    def __init__(self, servers: Sequence[str], path: str) -> None:
        self.servers = tuple(servers)
        self.path = path

    def ends(self) -> StreamPlan:
        """Begin and end of each shard, without objects."""
        return self._plan({})

    def objects(self, first: Mapping[int, int], end: Mapping[int, int]) -> StreamPlan:
        """As `ends`, with the objects of commits [first, end) of each shard."""
        return self._plan({"from": _commits(first), "to": _commits(end)})

    def topics(self, names: Sequence[str]) -> list[TopicPlan]:
        """These topics; those that do not exist are left out."""
        found: list[TopicPlan] = []
        for part in _parts(names, NAMES_AT_ONCE):
            body = {"path": self.path, "topics": part}
            found += self._ask(_TOPICS, "POST", "/records/topics", json=body).topics
        return found

    def names(self, shard: int, numbers: Iterable[int]) -> dict[int, str]:
        """Names of topic numbers; a deleted topic is left out."""
        found: dict[int, str] = {}
        for part in _parts(list(numbers), NUMBERS_AT_ONCE):
            body = {"path": self.path, "shard": shard, "numbers": part}
            found.update(self._ask(_NAMES, "POST", "/records/names", json=body).names)
        return found

    def offsets_at(self, topics: Sequence[str] | None, time_ms: int) -> dict[tuple[int, int], list[int]]:
        """Offset of each partition's first record with at least that time, else its end, by shard and topic number."""
        found: dict[tuple[int, int], list[int]] = {}
        for part in [None] if topics is None else _parts(topics, NAMES_AT_ONCE):
            body = {"path": self.path, "topics": part, "time_ms": time_ms}
            answer = self._ask(_OFFSETS, "POST", "/records/times", json=body)
            found.update({(topic.shard, topic.number): topic.offsets for topic in answer.topics})
        return found

    def _plan(self, query: Mapping[str, str]) -> StreamPlan:
        return self._ask(_PLAN, "GET", "/records/plan", params={"path": self.path, **query})

    def _ask(self, form: JsonForm[T], method: str, route: str, **how: Any) -> T:
        # Asking twice changes nothing, so the next server is tried even if the first one may have handled the call.
        attempts = Attempts(self.servers, httpx.TransportError)
        timeout = httpx.Timeout(RECORDS_SECONDS, connect=CONNECT_SECONDS)
        with httpx.Client(timeout=timeout, trust_env=False) as http:
            for server in attempts.urls:
                with attempts.at(server):
                    return _answer(form, answer_now(http, method, server + route, **how))
        raise Unreachable(f"no server answers at {attempts}; is it running?")


def _answer(form: JsonForm[T], response: httpx.Response) -> T:
    server = f"{response.request.url.host}:{response.request.url.port}"
    try:
        if response.is_error:
            raise to_error(response.json())
        return form.read(response.content)
    except (ValueError, RecursionError) as error:
        if isinstance(error, Unreadable) and not isinstance(error, NotAnObject):
            raise InvalidValue(f"an answer of {server} that is not understood: {error}") from error
        raise InvalidValue(f"{server} is not a Fairlead server") from None


def _parts(items: Sequence[T], size: int) -> list[list[T]]:
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def _commits(by_shard: Mapping[int, int]) -> str:
    return ",".join(f"{shard}:{commit}" for shard, commit in by_shard.items())
