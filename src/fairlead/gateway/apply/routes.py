"""HTTP of the destination's gateway for links: contact, and the one-time grant of a copy.

    POST /gateway/link        LinkRequest → LinkAnswer       may this source send, and where does the replica stand?
    POST /gateway/pulse       {} → ServerStart               was this server started again, or a conflict ended?
    POST /gateway/copy        LinkRequest → LinkAnswer       use up the permission of a copy, then as above
    POST /gateway/copy/end    LinkRequest → {}               the copy has ended
    POST /gateway/side/end    SideCopyEnd → {}               the side copy of a link has ended

An error is the envelope of the admin interface.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from fastapi import APIRouter, Request, Response

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import UpstreamRecord
from fairlead.gateway.apply.agreement import (
    admission,
    answer_contact,
    bind_link,
    forget,
    global_path,
    known_upstream_of,
    upstream_of,
)
from fairlead.model.errors import InvalidValue, NotAgreed, NotAllowed, NotFound
from fairlead.streamlog.applying.joining import join_links
from fairlead.wire.messages import body_from_json, check_protocol, to_json
from fairlead.wire.neighbours import LinkAnswer, LinkRequest, ServerStart, SideCopyEnd

router = APIRouter()

JSON = "application/json"


@router.post("/gateway/link", include_in_schema=False)
async def link(request: Request) -> Response:
    """First contact of a link, and each later question."""
    return await _answer(request, answer_contact)


@router.post("/gateway/pulse", include_in_schema=False)
async def pulse(request: Request) -> Response:
    """Which start of this server it is, and how much was resolved since; a source that hears of something else asks
    again where its links stand."""
    cluster: Cluster = request.app.state.cluster
    return Response(to_json(ServerStart(*cluster.start)), media_type=JSON)


@router.post("/gateway/copy", include_in_schema=False)
async def copy(request: Request) -> Response:
    """Begin the one copy that the stream's owner allowed."""
    return await _answer(request, begin_copy)


@router.post("/gateway/copy/end", include_in_schema=False)
async def copy_end(request: Request) -> Response:
    """Forget the permission of a copy that has ended."""
    return await _answer(request, end_copy)


@router.post("/gateway/side/end", include_in_schema=False)
async def side_end(request: Request) -> Response:
    """Forget a side copy; what it has noted is the link's from now on."""
    cluster: Cluster = request.app.state.cluster
    body = await request.body()
    check_protocol(body)
    await end_side_copy(cluster, body_from_json(body, SideCopyEnd))
    return Response("{}", media_type=JSON)


async def end_side_copy(cluster: Cluster, said: SideCopyEnd) -> None:
    """Let a link go on with what its side copy has brought, or forget what both were before.

    Raises:
        UnknownStream, NotAgreed, NotAllowed. InvalidValue: something of it is not here yet, or no end is named.
    """
    contact = said.contact
    if len(said.until) != len(said.epoch_ids):
        raise InvalidValue("a commit and its writer epoch are to be named for each shard")
    stream = cluster.stream(contact.path)
    links = (said.link, contact.link)
    upstream = upstream_of(cluster, stream, contact.source, said.into)
    for link in links:
        known_upstream_of(cluster, stream, contact.source, link)
    await bind_link(cluster, stream, upstream, said.into)
    may = admission(upstream, contact.source.stream, cluster.settings, len(stream.shards))
    ends = list(zip(said.until, said.epoch_ids, strict=True))
    if said.over:
        await forget(stream, links)
        return
    for shard in stream.shards:
        await shard.submit(partial(join_links, links=links, into=said.into, until=ends, admission=may))


async def begin_copy(cluster: Cluster, request: LinkRequest) -> LinkAnswer:
    """Let this link write into the stream if a copy of its source was allowed there (`copystream allow`), or if the
    source is an upstream anyway; asking again changes nothing.

    Raises:
        UnknownStream, NotAllowed: the stream cannot be copied into itself.
        NotAgreed: nobody allowed it.
    """
    stream = cluster.stream(request.path)
    if request.source.stream == stream.id:
        raise NotAllowed(f"{cluster.global_path(stream.path)} cannot be copied into itself")
    try:
        upstream_of(cluster, stream, request.source, request.link)
    except NotAgreed:
        await _use_permission(cluster, stream, request)
    return await answer_contact(cluster, request)


async def _use_permission(cluster: Cluster, stream: Stream, request: LinkRequest) -> None:
    path = global_path(request.source)
    try:
        await cluster.links.begin_copy(UpstreamRecord(stream.id, path, request.source.stream, request.link))
    except NotAgreed:
        replica = cluster.global_path(stream.path)
        raise NotAgreed(f"run: fairlead copystream allow -path {replica} -from {path}") from None


async def end_copy(cluster: Cluster, request: LinkRequest) -> None:
    """Forget a copy's permission, if it is there, and with `once` also its positions and notes. One that has ended
    already stays so.

    A copy beside a standing link has moved that link's, which stay.

    Raises:
        NotAllowed: the link is another source's.
    """
    try:
        stream = cluster.stream(request.path)
        known_upstream_of(cluster, stream, request.source, request.link)
    except (NotFound, NotAgreed):
        return
    if request.once:
        await forget(stream, [request.link])
    await cluster.links.end_copy(stream.id, global_path(request.source), request.link)


async def _answer(request: Request, handle: Callable[[Cluster, LinkRequest], Awaitable[LinkAnswer | None]]) -> Response:
    cluster: Cluster = request.app.state.cluster
    body = await request.body()
    check_protocol(body)
    answer = await handle(cluster, body_from_json(body, LinkRequest))
    return Response("{}" if answer is None else to_json(answer), media_type=JSON)
