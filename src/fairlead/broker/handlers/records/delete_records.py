"""DeleteRecords (KIP-107): the records of a partition below an offset are gone for readers at once, and the disk gets
their room back when they are merged. At the topic's owner only: elsewhere POLICY_VIOLATION. The answer has no place for
a message, so the log names the owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import structlog
from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.errors import code_of
from fairlead.broker.pacing import Pace
from fairlead.broker.topics.topics import Found
from fairlead.model.errors import FairleadError, NotOwner, another
from fairlead.streamlog.requests.deletion import delete_records
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.shard import Shard

log = structlog.get_logger(__name__)

API_KEY = 21

_NO_OFFSET: Final = -1
_TOGETHER: Final = 500
"""Partitions of one shard that share a commit; evaluating it holds the loop for some milliseconds."""


class _Item(NamedTuple):
    """A partition, and the place of its answer."""

    topic_at: int
    partition_at: int
    found: Found
    partition: int
    offset: int


_Outcome = int | Exception
"""Where the log begins now."""


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """Each partition has its own answer."""
    pace = Pace()
    answers: list[dict[str, Any]] = []
    by_shard: dict[Shard, list[_Item]] = {}
    for topic in request.topics:
        partitions: list[dict[str, Any]] = []
        for asked in topic.partitions:
            await pace.turn()
            try:
                found = ctx.listener.find(topic.name)
                item = _Item(len(answers), len(partitions), found, asked.partition_index, asked.offset)
                by_shard.setdefault(found.shard, []).append(item)
                partitions.append({})
            except FairleadError as error:
                partitions.append(_answer(asked.partition_index, error))
        answers.append({"name": topic.name, "partitions": partitions})
    for shard, items in by_shard.items():
        for first in range(0, len(items), _TOGETHER):
            together = items[first : first + _TOGETHER]
            for item, outcome in zip(together, await _deleted(shard, together), strict=True):
                answers[item.topic_at]["partitions"][item.partition_at] = _answered(ctx, item, outcome)
    return {"topics": answers}


async def _deleted(shard: Shard, items: Sequence[_Item]) -> Sequence[_Outcome]:
    try:
        return await shard.submit(lambda draft: [_delete(draft, item) for item in items])
    except Exception as error:
        return [error] * len(items)


def _delete(draft: Draft, item: _Item) -> _Outcome:
    try:
        return delete_records(draft, item.found.topic.number, item.partition, item.offset)
    except FairleadError as error:
        return another(error)


def _answered(ctx: RequestContext, item: _Item, outcome: _Outcome) -> dict[str, Any]:
    if isinstance(outcome, NotOwner):
        outcome = ctx.listener.owner_refused(item.found.stream, outcome)
        log.warning("deletion of records refused", client=ctx.connection.id, why=str(outcome))
    return _answer(item.partition, outcome)


def _answer(partition: int, outcome: _Outcome) -> dict[str, Any]:
    refused = isinstance(outcome, Exception)
    return {
        "partition_index": partition,
        "low_watermark": _NO_OFFSET if refused else outcome,
        "error_code": code_of(outcome) if isinstance(outcome, Exception) else ErrorCode.none,
    }
