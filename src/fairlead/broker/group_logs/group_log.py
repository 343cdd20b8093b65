"""Records of consumer groups in the logs of streams: those of a stream's own listener in the stream's log, those of the
main listener in the default stream's. They are entries of its first shard, which never leave the cluster.

A record may be larger than a row: its text is compressed and stands in as many entries as it needs, written together.
"""

from __future__ import annotations

import asyncio
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import structlog

from fairlead.broker.groups.records import RECORD, Cuts, GroupRecord, Since
from fairlead.broker.groups.values import GroupKey
from fairlead.cluster.cluster import Cluster
from fairlead.model.errors import FairleadError
from fairlead.model.limits import CONTROL_ROW_BYTES_MAX
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.entries import delete_entry, put_entry
from fairlead.streamlog.writing.shard import Shard

log = structlog.get_logger(__name__)

VERSION: Final = 1
"""Of the value of an entry, its field `v`."""
MARK: Final = "group/"
MAIN: Final = "main"
OWN: Final = "own"
"""Which listener a group is on: the main one, or the stream's own."""
PART_BYTES: Final = CONTROL_ROW_BYTES_MAX - 16 * 1024
"""Of the text, in one entry: the rest of the row is the group's name, of which each character may be escaped."""
LARGE_BYTES: Final = 50_000
"""A record with more than this is put into text on a thread: the largest take 50 ms."""
ENTRY_BYTES: Final = 500
"""What an entry takes up in memory beside its text."""


class _Coming(NamedTuple):
    """What is to be written of a group: a record, or None to delete it; and who waits for it."""

    record: GroupRecord | None
    ends: list[Callable[[BaseException | None], object]]


class GroupLog:
    """The store of one server's groups."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coming: dict[GroupKey, _Coming | None] = {}
        """Of groups of which something is being written: what comes next."""
        self._sizes: dict[GroupKey, int] = {}
        self.size_bytes = 0

    def known(self) -> Iterator[tuple[GroupKey, GroupRecord]]:
        """The records of all streams that are open. One that cannot be read, since a newer program wrote it, is left
        alone and logged: members of its group join again."""
        for stream in self._cluster.streams():
            entries = stream.shards[0].state.entries
            for name in [name for name in entries if name.startswith(MARK)]:
                listener, part, group = name.removeprefix(MARK).split("/", 2)
                if part != "0" or (listener == MAIN and stream.path != self._cluster.default_stream):
                    continue
                key = GroupKey("" if listener == MAIN else stream.path, group)
                try:
                    text = _text_in(entries, listener, group)
                    record = RECORD.read(zlib.decompress(b64decode(text)))
                except (ValueError, KeyError, TypeError, zlib.error) as error:
                    why = str(error)
                    log.warning("a consumer group's record cannot be read", group=group, stream=stream.path, why=why)
                    continue
                self._count(key, len(text))
                yield key, record

    def keep(self, key: GroupKey, record: GroupRecord, done: Callable[[], object]) -> None:
        """Write a record; `done` is called in any case."""
        self._write(key, _Coming(record, [lambda _: done()]))

    def forget(self, key: GroupKey) -> asyncio.Future[None]:
        """Delete a record; nothing is left to delete if its stream was deleted. The future fails with FairleadError."""
        forgotten: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        forgotten.add_done_callback(lambda future: future.cancelled() or future.exception())

        def end(error: BaseException | None) -> None:
            if forgotten.done():
                return
            if error is None:
                forgotten.set_result(None)
            else:
                forgotten.set_exception(error)

        self._write(key, _Coming(None, [end]))
        return forgotten

    def commits_now(self, group_id: str) -> Since:
        """The next commits of the shards in which the group has cursors, or had: a deleted one is none of its members'
        commits either."""
        found = {}
        for stream in self._cluster.streams():
            ends = tuple(_end(shard) if shard.state.cursor_table.has_known(group_id) else 0 for shard in stream.shards)
            if any(ends):
                found[stream.id.hex()] = ends
        return found

    def cuts_now(self) -> Cuts:
        """Where the logs of all streams were cut."""
        ends = {stream: tuple(shard.state.cuts_end for shard in stream.shards) for stream in self._cluster.streams()}
        return {stream.id.hex(): found for stream, found in ends.items() if any(found)}

    def _write(self, key: GroupKey, what: _Coming) -> None:
        """One write of a group at a time: what comes meanwhile is written as one. A static member that comes again and
        again, with a short request each time, would have the whole group written each time."""
        if key not in self._coming:
            self._begin(key, what)
            return
        waiting = self._coming[key]
        self._coming[key] = what if waiting is None else _Coming(what.record, [*waiting.ends, *what.ends])

    def _begin(self, key: GroupKey, what: _Coming) -> None:
        self._coming[key] = None
        try:
            shard = self._shard(key)
        except FairleadError:  # the stream was deleted, and its listener with it
            self._end(key, what, 0, None)
            return
        record = what.record
        if record is None:
            self._submit(shard, key, what, "")
        elif record.size_bytes < LARGE_BYTES:
            self._submit(shard, key, what, _text(record))
        else:
            packed = asyncio.get_running_loop().run_in_executor(self._cluster.executor, _text, record)
            packed.add_done_callback(lambda future: self._submit(shard, key, what, future.result()))

    def _submit(self, shard: Shard, key: GroupKey, what: _Coming, text: str) -> None:
        written = shard.submit(lambda draft: _put(draft, key, text), len(text))
        written.add_done_callback(
            lambda future: self._end(key, what, len(text), None if future.cancelled() else future.exception())
        )

    def _end(self, key: GroupKey, what: _Coming, text_bytes: int, error: BaseException | None) -> None:
        if error is None:
            self._count(key, text_bytes)
        else:
            log.warning("what is kept of a consumer group could not be written", group=key.group, why=str(error))
        try:
            for end in what.ends:
                end(error)
        finally:
            coming = self._coming.pop(key)
            if coming is not None:
                self._begin(key, coming)

    def _shard(self, key: GroupKey) -> Shard:
        return self._cluster.stream(key.namespace or self._cluster.default_stream).shards[0]

    def _count(self, key: GroupKey, text_bytes: int) -> None:
        before = self._sizes.pop(key, 0)
        now = text_bytes + ENTRY_BYTES if text_bytes else 0
        if now:
            self._sizes[key] = now
        self.size_bytes += now - before


def _end(shard: Shard) -> int:
    return shard.announced.end


def _name(key: GroupKey, part: int) -> str:
    return f"{MARK}{OWN if key.namespace else MAIN}/{part}/{key.group}"


def _text(record: GroupRecord) -> str:
    return b64encode(zlib.compress(RECORD.write(record), 1)).decode()


def _put(draft: Draft, key: GroupKey, text: str) -> None:
    """The entries of a text; none for an empty one."""
    parts = [text[at : at + PART_BYTES] for at in range(0, len(text), PART_BYTES)]
    for number, part in enumerate(parts):
        put_entry(draft, _name(key, number), {"v": VERSION, "parts": len(parts), "text": part})
    number = len(parts)
    while delete_entry(draft, _name(key, number)):
        number += 1


def _text_in(entries: Mapping[str, Any], listener: str, group: str) -> str:
    """Raises: ValueError, KeyError, TypeError: a value has not the form that this program knows."""
    parts: int = entries[f"{MARK}{listener}/0/{group}"]["parts"]
    found = [entries[f"{MARK}{listener}/{part}/{group}"] for part in range(parts)]
    if any(each["v"] != VERSION for each in found):
        raise ValueError(f"it has another version than {VERSION}, which this program knows")
    return "".join(each["text"] for each in found)
