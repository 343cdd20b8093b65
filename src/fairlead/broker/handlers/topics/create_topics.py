"""CreateTopics (KIP-4): a topic in the stream that its name says.

Any replication factor that Kafka knows is taken and 1 reported; a replica assignment is taken for its number of
partitions, and nothing else may say that number. Topics of one request share commits, each with its own answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields, Packed
from fairlead.broker.errors import RefusedRequest, code_of, message_of
from fairlead.broker.pacing import Pace, in_turns
from fairlead.broker.settings.configs import source_of
from fairlead.broker.settings.topic_settings import check_together, chosen, in_force
from fairlead.broker.topics.topic_changes import Change, change_all
from fairlead.cluster.stream import Stream
from fairlead.model.errors import AlreadyExists
from fairlead.model.limits import PARTITIONS_PER_TOPIC_MAX
from fairlead.protocol import create_topics as packed
from fairlead.streamlog.values import Topic

API_KEY = 19


class _Wanted(NamedTuple):
    """A topic that may be made."""

    stream: Stream
    name: str
    partitions: int
    configs: Mapping[str, str]


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Make the topics, or with `validate_only` say what would become of each."""
    named = Counter(topic.name for topic in request.topics)
    pace = Pace()
    wanted: list[_Wanted | Exception] = []
    for topic in request.topics:
        wanted.append(_checked(ctx, topic, named[topic.name] > 1))
        await pace.turn()
    made = map(_could_be, wanted) if request.validate_only else await change_all(await in_turns(_change, wanted))
    pack = _Packing(ctx)
    pieces: list[bytes] = []
    for topic, item, outcome in zip(request.topics, wanted, made, strict=True):
        pieces.append(pack.one(topic.name, item, outcome))
        await pace.turn()
    return Packed(packed.answer(ctx.version, pieces))


def _checked(ctx: RequestContext, asked: Any, twice: bool) -> _Wanted | Exception:
    try:
        if twice:
            raise RefusedRequest(ErrorCode.invalid_request, f"topic {asked.name} is named twice in one request")
        stream, name = ctx.listener.resolve(asked.name)
        partitions = _partitions(stream, asked)
        configs = chosen((config.name, config.value) for config in asked.configs)
        check_together(configs)
        return _Wanted(stream, name, partitions, configs)
    except Exception as error:
        return error


def _partitions(stream: Stream, asked: Any) -> int:
    """How many partitions are asked for: -1 stands for the stream's default (KIP-464), or for an assignment."""
    if asked.assignments and (asked.num_partitions, asked.replication_factor) != (-1, -1):
        why = f"topic {asked.name} has an assignment of replicas; give its partitions and replication factor as -1"
        raise RefusedRequest(ErrorCode.invalid_request, why)
    if not asked.assignments and asked.replication_factor < 1 and asked.replication_factor != -1:
        why = "Replication factor must be larger than 0, or -1 to use the default value."
        raise RefusedRequest(ErrorCode.invalid_replication_factor, why)
    count: int = len(asked.assignments) or asked.num_partitions
    if count == -1:
        return stream.settings.default_partitions
    if not 1 <= count <= PARTITIONS_PER_TOPIC_MAX:
        raise RefusedRequest(ErrorCode.invalid_partitions, f"{count} partitions: use 1 to {PARTITIONS_PER_TOPIC_MAX:,}")
    if asked.assignments and {item.partition_index for item in asked.assignments} != set(range(count)):
        raise RefusedRequest(ErrorCode.invalid_replica_assignment, "partitions of an assignment are numbered from 0")
    return count


def _change(item: _Wanted | Exception) -> Change | Exception:
    if isinstance(item, Exception):
        return item
    return Change(item.stream, item.name, item.stream.creation(item.name, item.partitions, item.configs))


def _could_be(item: _Wanted | Exception) -> Exception | None:
    if isinstance(item, Exception) or item.stream.find_topic(item.name) is None:
        return item if isinstance(item, Exception) else None
    return AlreadyExists(f"topic {item.name} exists in stream {item.stream.path}")


class _Packing:
    """Packs what became of topics; the settings of those that were made alike only once."""

    def __init__(self, ctx: RequestContext) -> None:
        self._ctx = ctx
        self._settings: dict[tuple[Stream, tuple[tuple[str, str], ...]], bytes] = {}

    def one(self, name: str, item: _Wanted | Exception, outcome: Topic | Exception | None) -> bytes:
        version = self._ctx.version
        if isinstance(item, Exception) or isinstance(outcome, Exception):
            error = item if isinstance(item, Exception) else outcome
            assert isinstance(error, Exception)
            return packed.refused(version, name, code_of(error), message_of(error))
        topic_id = None if outcome is None else item.stream.topic_id(item.stream.shard_for(item.name), outcome)
        return packed.made(version, name, topic_id, item.partitions, self._settings_of(item))

    def _settings_of(self, item: _Wanted) -> bytes:
        key = (item.stream, tuple(item.configs.items()))
        found = self._settings.get(key)
        if found is None:
            values = in_force(item.stream, item.configs, self._ctx.settings).items()
            sources = [(name, value, source_of(name, item.configs)) for name, value in values]
            found = self._settings[key] = packed.settings(self._ctx.version, sources)
        return found
