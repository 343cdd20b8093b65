"""HTTP for readers of records (Spark): what to read, and what its numbers mean. Changes nothing.

    GET  /records/plan?path=&from=0:12,1:5&to=0:90   where each shard begins and ends; with `from` also the objects
    POST /records/topics   {path, topics}            partitions of these topics, with the offsets that exist
    POST /records/names    {path, shard, numbers}    names of topic numbers; a deleted topic has none
    POST /records/times    {path, topics, time_ms}   first offset of each partition with at least that time

POST is used where a list may be long. Readers open the objects themselves, in the data directory that the plan names
(`root`); they never list, and ask again when an object is missing. An error is the envelope of the admin interface.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.gateway.rest.long_json import in_turns
from fairlead.gateway.rest.lookups import looked_up
from fairlead.model.errors import InvalidValue, NotImplementedYet, UnknownCluster
from fairlead.model.limits import REQUEST_ITEMS_MAX
from fairlead.model.names import parse_stream_path
from fairlead.storage.local import LocalStorage
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.shard import Shard

router = APIRouter(include_in_schema=False)


@router.get("/records/plan")
async def plan(request: Request) -> JSONResponse:
    """Shards of a stream: prefix, begin, end, epochs, and the objects of a range."""
    query = request.query_params
    return await _answer(request, lambda cluster: _plan(cluster, query.get("path"), query.get("from"), query.get("to")))


@router.post("/records/topics")
async def topics(request: Request) -> JSONResponse:
    """Number, partitions and offsets of topics by name; what does not exist is left out."""
    body = await _body(request)
    return await _answer(request, lambda cluster: _topics(_stream(cluster, body.get("path")), _names(body)))


@router.post("/records/names")
async def names(request: Request) -> JSONResponse:
    """Names of topic numbers of one shard."""
    body = await _body(request)
    return await _answer(request, lambda cluster: _names_of(_stream(cluster, body.get("path")), body))


@router.post("/records/times")
async def times(request: Request) -> JSONResponse:
    """First offset with at least a time, for every partition of the topics (of all, without a choice)."""
    body = await _body(request)
    return await _answer(request, lambda cluster: _times(cluster, _stream(cluster, body.get("path")), body))


async def _answer(request: Request, handle: Callable[[Cluster], Awaitable[dict[str, Any]]]) -> JSONResponse:
    return JSONResponse(await handle(request.app.state.cluster))


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _stream(cluster: Cluster, path: object) -> Stream:
    if not isinstance(path, str):
        raise InvalidValue("say which stream: path=/ships")
    parsed = parse_stream_path(path)
    if parsed.cluster not in {None, cluster.name}:
        raise UnknownCluster(f"this is cluster {cluster.name}, not {parsed.cluster}")
    return cluster.stream(parsed.path)


def _names(body: dict[str, Any]) -> list[str]:
    found = body.get("topics")
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise InvalidValue("topics: give a list of names")
    return _few(found)


def _few(items: list[Any]) -> list[Any]:
    if len(items) > REQUEST_ITEMS_MAX:
        raise InvalidValue(f"{len(items):,} items; ask for at most {REQUEST_ITEMS_MAX:,} at a time")
    return items


async def _plan(cluster: Cluster, path: str | None, first: str | None, end: str | None) -> dict[str, Any]:
    stream = _stream(cluster, path)
    if not isinstance(cluster.storage, LocalStorage):
        raise NotImplementedYet("reading records from an object store")
    firsts, ends = _commits(first), _commits(end)
    return {
        "cluster": cluster.name,
        "path": stream.path,
        "stream": stream.id.hex(),
        "root": str(cluster.storage.root.absolute()),
        "shards": [
            _shard(shard, number, firsts.get(number, 0) if first is not None else None, ends.get(number))
            for number, shard in enumerate(stream.shards)
        ],
    }


def _shard(shard: Shard, number: int, first: int | None, end: int | None) -> dict[str, Any]:
    log = shard.announced
    begin = max(log.manifest.begin, first) if first is not None else 0
    until = min(log.end, end) if end is not None else log.end
    objects = log.objects(begin, until) if first is not None and begin < until else []
    return {
        "shard": number,
        "begin": log.manifest.begin,
        "end": log.end,
        "epochs": [[epoch.number, epoch.id.hex(), epoch.first, epoch.end] for epoch in log.epochs],
        "objects": [asdict(found) for found in objects],
        "deleted": _deleted(shard) if objects else [],
        "cuts": shard.state.dead_from(begin) if objects else [],
    }


def _deleted(shard: Shard) -> list[tuple[int, int, int]]:
    """Topic number, partition, and the offset below which records were deleted that lie in the objects still."""
    return [
        (number, partition, offset)
        for (number, partition), offset in shard.state.deleted_to().items()
        if offset > shard.state.partition(number, partition).start
    ]


def _commits(text: str | None) -> dict[int, int]:
    """`0:12,1:5` as commits by shard."""
    try:
        pairs = [pair.split(":") for pair in (text or "").split(",") if pair]
        return {int(shard): int(commit) for shard, commit in pairs}
    except ValueError:
        raise InvalidValue(f"{text!r}: give commits as shard:commit,…") from None


async def _topics(stream: Stream, chosen: Sequence[str]) -> dict[str, Any]:
    topics = []
    async for name in in_turns(dict.fromkeys(chosen)):
        found = stream.find_topic(name)
        if found is not None:
            topics.append(_topic(*found, stream.shards.index(found[0])))
    return {"topics": topics}


def _topic(shard: Shard, topic: Topic, shard_number: int) -> dict[str, Any]:
    states = [shard.state.partition(topic.number, partition) for partition in range(topic.partitions)]
    return {
        "name": topic.name,
        "shard": shard_number,
        "number": topic.number,
        "partitions": [[state.log_start, state.end] for state in states],
    }


async def _names_of(stream: Stream, body: dict[str, Any]) -> dict[str, Any]:
    number, wanted = body.get("shard"), body.get("numbers")
    if type(number) is not int or not 0 <= number < len(stream.shards) or not isinstance(wanted, list):
        raise InvalidValue("give a shard and a list of topic numbers")
    state = stream.shards[number].state
    found = ((each, state.topic(each)) for each in _few(wanted) if type(each) is int)
    return {"names": [[each, topic.name] for each, topic in found if topic is not None]}


async def _times(cluster: Cluster, stream: Stream, body: dict[str, Any]) -> dict[str, Any]:
    time_ms = body.get("time_ms")
    if type(time_ms) is not int:
        raise InvalidValue("time_ms: give milliseconds since 1970")
    chosen = _names(body) if body.get("topics") is not None else [t.name async for t in in_turns(stream.topics())]
    found = await looked_up(cluster, chosen, partial(_times_of, stream, time_ms))
    return {"topics": [times for times in found if times is not None]}


def _times_of(stream: Stream, time_ms: int, name: str) -> dict[str, Any] | None:
    found = stream.find_topic(name)
    return None if found is None else _topic_times(stream, *found, time_ms)


def _topic_times(stream: Stream, shard: Shard, topic: Topic, time_ms: int) -> dict[str, Any]:
    """A partition with no such record answers its end: it is read from what comes next on."""
    offsets = []
    for partition in range(topic.partitions):
        found = shard.reader.offset_for_time(topic.number, partition, time_ms)
        offsets.append(shard.state.partition(topic.number, partition).end if found is None else found[0])
    return {"shard": stream.shards.index(shard), "number": topic.number, "offsets": offsets}
