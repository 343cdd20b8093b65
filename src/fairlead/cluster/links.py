"""Links and upstreams as this cluster records them: both halves of the two-way agreement.

Data flows only if the source's cluster has a link and the replica's cluster an upstream. Only records are kept here;
`gateway/links/runner.py` acts on them and is told of each change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

from fairlead.cluster import side_copies
from fairlead.cluster.keys import LINK, UPSTREAM, allowed, allowed_key, upstream_key, upstreams
from fairlead.cluster.records import put_record, put_record_of
from fairlead.cluster.values import (
    CopyPermission,
    LinkRecord,
    UpstreamRecord,
    link_from_json,
    link_json,
    permission_from_json,
    permission_json,
    upstream_from_json,
    upstream_json,
)
from fairlead.model.errors import AlreadyExists, InvalidValue, NotAgreed, NotFound
from fairlead.model.limits import LINKS_PER_PARTNER_MAX, REPLICAS_PER_STREAM_MAX, UPSTREAMS_PER_STREAM_MAX
from fairlead.model.names import StreamPath
from fairlead.streamlog.writing.draft import Draft, DraftRequest
from fairlead.streamlog.writing.entries import delete_entry
from fairlead.streamlog.writing.shard import Shard

SHARED_WITH_SIDE_COPIES = frozenset(
    {
        *("paused", "replica_path", "replica_urls", "replica_stream", "rescan"),
        *("forward", "peer", "ownership", "cursors", "prefix"),
    }
)
"""What holds of a link holds of what is copied beside it."""

R = TypeVar("R")
T = TypeVar("T")
LinksListener = Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Found:
    """All records, as they are after the commits below `end`."""

    end: int
    links: list[LinkRecord]
    by_source: dict[bytes, list[LinkRecord]]
    upstreams: dict[bytes, list[UpstreamRecord]]


class Links:
    """The link and upstream entries of `meta/`."""

    def __init__(self, meta: Shard) -> None:
        self._meta = meta
        self._found = _Found(-1, [], {}, {})
        self._read: dict[str, tuple[Any, LinkRecord | UpstreamRecord]] = {}
        """By key, the entry and the record that it was read as: an entry is read once."""
        self._listeners: list[LinksListener] = []
        self._adding = asyncio.Lock()

    def listen(self, listener: LinksListener) -> None:
        """Call `listener` after every change."""
        self._listeners.append(listener)

    def all(self) -> list[LinkRecord]:
        """Every link whose source is here, oldest first."""
        return list(self._records().links)

    def of(self, stream: bytes) -> list[LinkRecord]:
        """The links of one source stream, oldest first."""
        return list(self._records().by_source.get(stream, ()))

    def standing(self, stream: bytes) -> list[LinkRecord]:
        """Those of them that are no copies."""
        return [link for link in self.of(stream) if link.standing]

    def get(self, link: bytes) -> LinkRecord | None:
        """The link with that id."""
        entry = self._meta.state.entries.get(LINK.key(link))
        return None if entry is None else link_from_json(link, entry)

    def find(self, stream: bytes, replica_path: StreamPath) -> LinkRecord:
        """The standing link of a source to that replica.

        Raises:
            NotFound: there is none.
        """
        for link in self.standing(stream):
            if link.replica_path == replica_path:
                return link
        raise NotFound(f"{replica_path} is not a replica; see `fairlead stream replica list`")

    async def add(self, link: LinkRecord) -> LinkRecord:
        """Record a link.

        Raises:
            AlreadyExists: the source has that replica.
            InvalidValue: it has 64 already; copies under way are counted by themselves.
            UnknownStream: the source was deleted meanwhile.
        """
        async with self._adding:
            standing = self.standing(link.source)
            if link.once is None and any(other.replica_path == link.replica_path for other in standing):
                raise AlreadyExists(f"{link.replica_path} is a replica of {link.source_path} already")
            copies = sum(other.once is not None for other in self.of(link.source))
            if link.once is None and len(standing) >= REPLICAS_PER_STREAM_MAX:
                raise InvalidValue(
                    f"{link.source_path} has {len(standing)} replicas, and no more are allowed; remove one, or let one "
                    f"of them feed {link.replica_path}"
                )
            if link.once is not None and copies >= REPLICAS_PER_STREAM_MAX:
                raise InvalidValue(f"{copies} copies of {link.source_path} are under way; begin this one when one ends")
            await self._submit(lambda draft: put_record_of(draft, link.source, LINK.key(link.id), link_json(link)))
        return link

    async def edit(self, link: bytes, **changes: Any) -> LinkRecord:
        """Change fields of a link, but for `id`, `source`, `once` and what was noted when it was made.

        Raises:
            NotFound: the link was removed.
            InvalidValue
        """

        shared = {name: value for name, value in changes.items() if name in SHARED_WITH_SIDE_COPIES}

        def request(draft: Draft) -> LinkRecord:
            record = replace(side_copies.drafted(draft, link), **changes)
            side_copies.put_link(draft, record)
            if record.filter_next is not None and shared:
                copy = side_copies.drafted(draft, record.filter_next.side)
                side_copies.put_link(draft, replace(copy, **shared))
            return record

        return await self._submit(request)

    async def change(self, request: DraftRequest[T]) -> T:
        """What a step of `side_copies` does."""
        return await self._submit(request)

    async def remove(self, link: bytes) -> None:
        """Forget a link, and what is copied beside it; nothing if it is not there."""

        def request(draft: Draft) -> None:
            entry = draft.state.entry(LINK.key(link))
            if entry is not None:
                side_copies.give_up(draft, link_from_json(link, entry))
                delete_entry(draft, LINK.key(link))

        await self._submit(request)

    def upstreams(self, stream: bytes) -> list[UpstreamRecord]:
        """What a replica stream accepts, by path; copies that are under way included."""
        return list(self._records().upstreams.get(stream, ()))

    def standing_upstreams(self, stream: bytes) -> list[UpstreamRecord]:
        """Those of them that are no copies."""
        return [upstream for upstream in self.upstreams(stream) if upstream.once_link is None]

    def path_of(self, stream: bytes, neighbour: bytes) -> str:
        """The global path of a neighbour of a stream, by its id; empty if no link and no upstream is bound to it."""
        sources = (str(each.path) for each in self.upstreams(stream) if each.source_stream == neighbour)
        replicas = (str(each.replica_path) for each in self.of(stream) if each.replica_stream == neighbour)
        return next(chain(sources, replicas), "")

    def _records(self) -> _Found:
        """All records by stream. Who shows all streams asks for each of them, so they are looked for once a commit."""
        if self._found.end != self._meta.announced.end:
            self._found = self._look()
        return self._found

    def _look(self) -> _Found:
        entries, before = self._meta.state.entries, self._read
        self._read = {}
        for key, entry in entries.items():
            kind, _, rest = key.partition("/")
            if kind in {LINK.kind, UPSTREAM}:
                read = before.get(key)
                self._read[key] = read if read is not None and read[0] is entry else (entry, _record(kind, rest, entry))
        links = [record for _, record in self._read.values() if isinstance(record, LinkRecord)]
        links.sort(key=lambda link: (link.created_at, link.id))
        found = _Found(self._meta.announced.end, links, {}, {})
        for link in links:
            found.by_source.setdefault(link.source, []).append(link)
        for _, (_, record) in sorted(self._read.items(), key=lambda each: each[0]):
            if isinstance(record, UpstreamRecord):
                found.upstreams.setdefault(record.stream, []).append(record)
        return found

    async def add_upstream(self, upstream: UpstreamRecord) -> UpstreamRecord:
        """Accept a source.

        Raises:
            AlreadyExists: it is accepted already.
            InvalidValue: there are 64 already.
            UnknownStream: the replica was deleted meanwhile.
        """
        async with self._adding:
            others = self.standing_upstreams(upstream.stream)
            if any(other.path == upstream.path for other in others):
                raise AlreadyExists(f"{upstream.path} is an upstream already")
            if len(others) >= UPSTREAMS_PER_STREAM_MAX:
                raise InvalidValue(
                    f"the stream has {len(others)} upstreams, and no more are allowed; remove one, or let "
                    f"{upstream.path} feed one of them"
                )
            key, entry = _upstream_key(upstream), upstream_json(upstream)
            await self._submit(lambda draft: put_record_of(draft, upstream.stream, key, entry))
        return upstream

    async def bind_upstream(
        self, upstream: UpstreamRecord, source_stream: bytes, source_urls: tuple[str, ...] = ()
    ) -> UpstreamRecord:
        """Record the id of the source stream and the addresses of its cluster, learned from its contact.

        Raises:
            NotFound: it is accepted no more.
            NotAgreed: another stream of that path was first.
        """

        def bound(entry: Any) -> UpstreamRecord:
            known = upstream_from_json(upstream.stream, entry)
            if known.source_stream not in {None, source_stream}:
                raise NotAgreed(f"another stream of the path {known.path} was accepted just now")
            return replace(known, source_stream=source_stream, source_urls=source_urls)

        return await self._edit(_upstream_key(upstream), bound, upstream_json, _no_upstream(upstream.path))

    async def bind_link(self, upstream: UpstreamRecord, link: bytes) -> list[bytes]:
        """Record that a partner has this link; answers which ones, the oldest, are its no more.

        Raises:
            NotFound: it is accepted no more.
        """
        gone: list[bytes] = []

        def bound(entry: Any) -> UpstreamRecord:
            known = upstream_from_json(upstream.stream, entry)
            links = [each for each in known.links if each != link]
            gone[:] = links[: max(len(links) + 1 - LINKS_PER_PARTNER_MAX, 0)]
            return replace(known, links=(*links[len(gone) :], link))

        await self._edit(_upstream_key(upstream), bound, upstream_json, _no_upstream(upstream.path))
        return gone

    async def edit_upstream(self, stream: bytes, path: StreamPath, **changes: Any) -> UpstreamRecord:
        """Change `peer`, `origins`, `ownership` and `multimaster` of a standing upstream.

        Raises:
            NotFound: it was not accepted.
            InvalidValue
        """

        def changed(entry: Any) -> UpstreamRecord:
            return replace(upstream_from_json(stream, entry), **changes)

        return await self._edit(upstream_key(stream, path, None), changed, upstream_json, _no_upstream(path))

    async def remove_upstream(self, stream: bytes, path: StreamPath) -> None:
        """Accept a source no more, nor its copies that are under way.

        Raises:
            NotFound: it was not accepted.
        """

        def request(draft: Draft) -> None:
            of_path = [each for each in self.upstreams(stream) if each.path == path]
            gone = [delete_entry(draft, _upstream_key(each)) for each in of_path]
            if not any(gone):
                raise NotFound(_no_upstream(path))

        await self._submit(request)

    async def end_copy(self, stream: bytes, path: StreamPath, link: bytes) -> None:
        """Accept that copy no more; nothing if it is not there."""
        await self._submit(lambda draft: delete_entry(draft, upstream_key(stream, path, link)))

    def copy_permissions(self, stream: bytes) -> list[CopyPermission]:
        """Which sources may copy into a stream once, by path."""
        return [permission_from_json(stream, entry) for _, entry in allowed(self._meta.state.entries, stream)]

    async def allow_copy(self, permission: CopyPermission) -> None:
        """Let a source copy into a stream once; a second permission for it replaces the first.

        Raises:
            InvalidValue: there are 64 already.
            UnknownStream: the stream was deleted meanwhile.
        """
        key = allowed_key(permission.stream, permission.path)

        def request(draft: Draft) -> None:
            others = [each for each in self.copy_permissions(permission.stream) if each.path != permission.path]
            if len(others) >= UPSTREAMS_PER_STREAM_MAX:
                raise InvalidValue(f"the stream allows {len(others)} copies, and no more are possible; remove one")
            put_record_of(draft, permission.stream, key, permission_json(permission))

        await self._submit(request)

    async def forbid_copy(self, stream: bytes, path: StreamPath) -> None:
        """Take a permission back that was not used.

        Raises:
            NotFound: there is none.
        """

        def request(draft: Draft) -> None:
            if not delete_entry(draft, allowed_key(stream, path)):
                raise NotFound(f"no copy of {path} is allowed; `fairlead copystream list` shows those that are")

        await self._submit(request)

    async def begin_copy(self, upstream: UpstreamRecord) -> None:
        """Accept the one link of a copy, with the peer that its permission names. It is used up in the same commit.

        A link that was accepted stays so: its request may come again while the first is still under way.

        Raises:
            NotAgreed: nobody allowed it.
        """

        def request(draft: Draft) -> None:
            if draft.state.entry(_upstream_key(upstream)) is not None:
                return
            key = allowed_key(upstream.stream, upstream.path)
            entry = draft.state.entry(key)
            if entry is None:
                raise NotAgreed(f"no copy of {upstream.path} is allowed")
            delete_entry(draft, key)
            accepted = replace(upstream, peer=permission_from_json(upstream.stream, entry).peer)
            put_record(draft, _upstream_key(accepted), upstream_json(accepted))

        await self._submit(request)

    async def forget_stream(self, stream: bytes) -> None:
        """Remove the links, upstreams and permissions of a stream that is deleted."""
        keys = [key for key, _ in upstreams(self._meta.state.entries, stream)]
        keys += [key for key, _ in allowed(self._meta.state.entries, stream)]
        keys += [LINK.key(link.id) for link in self.of(stream)]

        def request(draft: Draft) -> None:
            for key in keys:
                delete_entry(draft, key)

        await self._submit(request)

    async def _edit(self, key: str, changed: Callable[[Any], R], value: Callable[[R], Any], missing: str) -> R:
        """Put the record that `changed` makes of an entry, as it is in that very commit, in the entry's place."""

        def request(draft: Draft) -> R:
            entry = draft.state.entry(key)
            if entry is None:
                raise NotFound(missing)
            record = changed(entry)
            put_record(draft, key, value(record))
            return record

        return await self._submit(request)

    async def _submit(self, request: DraftRequest[T]) -> T:
        answer = await self._meta.submit(request)
        for listener in self._listeners:
            listener()
        return answer


def _record(kind: str, rest: str, entry: Any) -> LinkRecord | UpstreamRecord:
    """The record of an entry by its key: `rest` is what follows its kind."""
    id = bytes.fromhex(rest.partition("/")[0])
    return link_from_json(id, entry) if kind == LINK.kind else upstream_from_json(id, entry)


def _upstream_key(upstream: UpstreamRecord) -> str:
    return upstream_key(upstream.stream, upstream.path, upstream.once_link)


def _no_upstream(path: StreamPath) -> str:
    return f"{path} is not an upstream; `fairlead stream upstream list` shows those there are"
