"""Makes the data directory that a change of format must keep readable: `make format-fixture`.

It has every kind of object and of row that this format knows. What it holds is written beside it as JSON, so that a
later program is judged by what this one has read.
"""

from __future__ import annotations

import asyncio
import io
import json
import lzma
import tarfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.streamlog.reading.test_transactions import data, end
from tests.streamlog.world import (
    FakeClock,
    SeededRandomness,
    applied,
    batch_of,
    committed,
    frame,
    fresh,
    installed,
    made,
    produced,
    values_at,
)
from tests.support.batches import produce
from tests.support.packs import always_packed

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.diverged import copy_tails
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import LinkRecord, StreamSettings, UpstreamRecord
from fairlead.model.names import StreamPath, slice_of
from fairlead.model.settings import Settings
from fairlead.storage.interface import Storage
from fairlead.storage.local import LocalStorage
from fairlead.storage.names import commit as commit_name
from fairlead.storage.names import shard_prefix
from fairlead.storage.packs import PackSettings
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.objects import format, opening, short
from fairlead.streamlog.payloads import ExpiredPayload, StatePayload
from fairlead.streamlog.requests.cursors import commit_cursor, publish_cursors
from fairlead.streamlog.requests.cuts import cut, diverged_incarnation
from fairlead.streamlog.requests.deletion import delete_records
from fairlead.streamlog.requests.ownership import hand_over
from fairlead.streamlog.requests.topics import delete_topic, set_configs
from fairlead.streamlog.rows import NO_TOPIC, NO_TOPIC_SENT, Kind, Row
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import Opener, Topic
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.entries import put_entry
from fairlead.streamlog.writing.writer import ShardLog

HERE: Final = Path(__file__).parent
DIRECTORY: Final = HERE / "format-3.tar.xz"
"""A directory of log format 3, as decided up to decision 0045."""
SAID: Final = HERE / "format-3.json"
PACK_BYTES: Final = 128 * 1024
CLUSTER, PATH = "oslo", "/ships"
THEIRS: Final = b"b" * 16
"""Id of the stream that the one of the fixture is a replica of, and its replica."""
MERGING: Final = replace(
    Settings(), merge_commits_min=1, merge_idle_seconds=0.0, checkpoint_interval_seconds=0.0, delete_grace_seconds=0.0
)
RESTING: Final = replace(Settings(), merge_interval_seconds=3600.0)
"""Nothing happens by itself."""
TOPIC_FIELDS: Final = (
    *("number", "name", "incarnation", "partitions", "owner", "epoch", "version", "configs", "home", "owner_at"),
    *("since", "ext", "deleted_to"),
)
LINK_FIELDS: Final = ("id", "source_path", "replica_path", "replica_urls", "paused", "forward", "peer")
UPSTREAM_FIELDS: Final = ("stream", "path", "peer")
KEPT: Final = b'{"v":9,"k":"key","n":2,"later":[1,null]}'
"""What only a later program understands."""


async def opened(storage: Storage, executor: ThreadPoolExecutor, seed: int) -> Cluster:
    """The cluster on that directory, which merges nothing by itself."""
    return await Cluster.open(
        storage,
        name=CLUSTER,
        settings=RESTING,
        clock=FakeClock(),
        randomness=SeededRandomness(seed),
        executor=executor,
    )


async def make(root: Path) -> None:
    """Write the directory."""
    with ThreadPoolExecutor(1) as executor:
        storage = always_packed(root, pack_bytes=PACK_BYTES)
        cluster = await opened(storage, executor, 1)
        stream = await cluster.create_stream(PATH, StreamSettings(shards=1))
        await linked(cluster, stream)
        await cluster.close()
        log = shard_log(storage, stream.id, 2)
        live(log)
        merged(log)
        more(log)
        seal(storage, log)
        cluster = await opened(storage, executor, 3)
        stream = cluster.stream(PATH)
        await copy_tails(stream, stream.shards[0])
        await cluster.close()
        log = shard_log(storage, stream.id, 4)
        last(log)
        storage.close()


async def linked(cluster: Cluster, stream: Stream) -> None:
    """A link to another cluster, and one from there."""
    bergen = StreamPath(PATH, "bergen")
    await cluster.links.add(
        LinkRecord(b"l" * 16, stream.id, PATH, bergen, ("http://bergen:8080",), paused=True, created_at=0)
    )
    await cluster.links.add_upstream(UpstreamRecord(stream.id, bergen))


def shard_log(storage: Storage, stream_id: bytes, seed: int) -> ShardLog:
    """The stream's only shard."""
    return ShardLog.open(
        storage,
        shard_prefix(stream_id, 0),
        stream_id=stream_id,
        clock=FakeClock(),
        randomness=SeededRandomness(seed),
        settings=MERGING,
    )


def merged(log: ShardLog) -> None:
    """All commits in segments, with a checkpoint."""
    while (job := log.upkeep.plan()) is not None:
        installed(log, run_job.run(log.announced.storage, SeededRandomness(log.announced.end), job))


def live(log: ShardLog) -> None:
    """A row of every kind."""
    ships, boats = made(log, "ships", 2), made(log, "boats")
    for place in range(4):
        batch = batch_of(b"ship %d" % place, b"crew %d" % place, producer_id=7, epoch=0, sequence=2 * place)
        committed(log, partial(produce, number=ships.number, partition=0, batch=batch))
    produced(log, ships.number, b"alone", partition=1)
    produced(log, boats.number, b"oar", b"sail", b"rope")
    committed(
        log,
        lambda draft: commit_cursor(draft, "crew", ships.number, 0, 3, metadata="here"),
        lambda draft: publish_cursors(draft, [("crew", ships.number, 0)]),
        lambda draft: put_entry(draft, "key", {"deep": [1, None, "ü"]}),
        lambda draft: set_configs(draft, "ships", {"retention.ms": "-1"}),
        lambda draft: delete_records(draft, ships.number, 0, 1),
        lambda draft: delete_records(draft, boats.number, 0, 2),
        lambda draft: draft.add_control(
            Kind.EXPIRED, ExpiredPayload(), number=boats.number, partition=0, base_offset=3
        ),
        lambda draft: draft.add_control(Kind.STATE, StatePayload("how far", {"at": 2}), number=ships.number),
    )
    keep_later_rows(log, ships)
    delete(log, "gone")
    receive(log)
    given = committed(log, lambda draft: give(draft, log, "boats"))[0].result()
    assert given.deleted_to == (2,)
    at_six = diverged_incarnation(ships.incarnation, 0, 1000)
    committed(log, lambda draft: cut(draft, ships.number, 0, 6, "takeover", 1000, at_six))
    produced(log, ships.number, b"after the cut")


def keep_later_rows(log: ShardLog, ships: Topic) -> None:
    """Rows that only later programs understand, local and sent, of a topic and of none."""
    here = log.announced.state.stream_id
    slice_3 = NO_TOPIC_SENT + 3
    rows = [
        (Kind.TXN, ships.number, 0, here),
        (Kind.COMPACTED, ships.number, 1, here),
        (70, ships.number, -1, None),
        (71, NO_TOPIC, -1, None),
        (100, ships.number, -1, here),
        (101, slice_3, -1, here),
    ]
    for kind, number, partition, origin in rows:
        add = partial(Draft.add_control, number=number, partition=partition, origin=origin)
        committed(log, partial(_added, add, kind))


def _added(add: Callable[..., Row], kind: int, draft: Draft) -> None:
    add(draft, kind, KEPT)


def delete(log: ShardLog, name: str) -> None:
    """A topic that was."""
    produced(log, made(log, name).number, b"lost")
    committed(log, lambda draft: delete_topic(draft, name))


def receive(log: ShardLog) -> None:
    """Rows of another cluster: its topic with transactions, its position, and a partition that is behind."""
    theirs = fresh(THEIRS)
    topic = made(theirs, "theirs", 2)
    data(theirs, topic.number, 7, b"a", b"b")
    produced(theirs, topic.number, b"c")
    end(theirs, topic.number, 7, abort=True)
    data(theirs, topic.number, 9, b"open")
    produced(theirs, topic.number, b"1", partition=1)
    lost = theirs.announced.end
    produced(theirs, topic.number, b"2", partition=1)
    produced(theirs, topic.number, b"3", partition=1)
    destination, slice = log.announced.state.stream_id, slice_of("theirs")
    link = b"up" * 8
    applied(log, frame(theirs, destination, slice, 0, lost, link=link))
    missing = frame(theirs, destination, slice, lost, lost + 1, link=link)
    applied(log, replace(missing, rows=[]))
    applied(log, frame(theirs, destination, slice, lost + 1, link=link))


def give(draft: Draft, log: ShardLog, name: str) -> Topic:
    """Another stream owns the topic from here on."""
    return hand_over(draft, name, to=THEIRS, owner_at="/mapr/bergen/ships", writer_epoch_id=log.epoch.id)


def more(log: ShardLog) -> None:
    """Commits that are not merged: short ones, and one that is too long for that."""
    ships = log.announced.state.by_name("ships")
    assert ships is not None
    produced(log, ships.number, bytes(short.BYTES_MAX))
    produced(log, ships.number, b"short", partition=1)


def seal(storage: Storage, log: ShardLog) -> None:
    """What a next writer may put where the log's writer would put its next commit."""
    prefix, stream_id = log.announced.prefix, log.announced.state.stream_id
    opening.claim(storage, prefix, stream_id, SeededRandomness(5), Opener(2), 0)
    name = commit_name(prefix, log.epoch.number, log.announced.end)
    storage.put_if_absent(name, format.encode_seal(name=name, epoch_id=log.epoch.id, number=log.announced.end))


def last(log: ShardLog) -> None:
    """The end: a cut whose tail is still to be copied."""
    ships = log.announced.state.by_name("ships")
    assert ships is not None
    number = ships.number
    produced(log, number, b"late", partition=1)
    keep = diverged_incarnation(ships.incarnation, 0, 2000)
    committed(log, lambda draft: cut(draft, number, 1, 2, "takeover", 2000, keep))


def said(shard: Any) -> dict[str, Any]:
    """What a shard, or its log, holds, as far as anybody can ask."""
    state: ShardState = shard.announced.state
    topics = {topic.name: topic for topic in state.topics()}
    cursors = sorted((group, key, found.live()) for group, key, found in state.cursor_table.all())
    groups = {
        group: [(key, astuple(cursor)[:5]) for of, key, cursor in cursors if of == group and cursor is not None]
        for group in state.cursor_table.groups()
    }
    found: dict[str, Any] = plain(
        {
            "end": shard.announced.end,
            "topics": {name: fields(topic, TOPIC_FIELDS) for name, topic in topics.items()},
            "partitions": {
                name: [state.partition(topic.number, each) for each in range(topic.partitions)]
                for name, topic in topics.items()
            },
            "records": {
                name: [summed(values_at(shard, topic.number, each)) for each in range(topic.partitions)]
                for name, topic in topics.items()
            },
            "tombstones": sorted(state.tombstones.items()),
            "groups": groups,
            "producers": sorted(state.producers.items()),
            "transactions": list(state.partition_transactions.items()),
            "positions": sorted(state.all_positions().items()),
            "notes": [note.behind for note in state.all_notes().values()],
            "gaps": state.gap_items(),
            "cuts": state.cut_items(),
            "entries": dict(state.entries),
            "states": list(state.topic_states.items()),
            "kept": sorted((number, key, kept.data) for number, key, kept in state.kept_rows.items()),
        }
    )
    return found


def summed(values: dict[int, bytes | None]) -> list[list[Any]]:
    """Each record by offset; of long ones their length."""
    return [[offset, len(value) if value and len(value) > 100 else value] for offset, value in sorted(values.items())]


def fields(value: Any, names: Sequence[str]) -> dict[str, Any]:
    """These fields of a value: a later version may give it more."""
    return {name: getattr(value, name) for name in names}


def plain(value: Any) -> Any:
    """As JSON says it."""
    found: Any = json.loads(json.dumps(value, default=_text))
    return found


def _text(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        text = bytes(value)
        return text.decode() if text.isascii() and text.decode().isprintable() else text.hex()
    return str(value) if isinstance(value, StreamPath) else _known(value)


def _known(value: Any) -> Any:
    return [getattr(value, name) for name in value.__slots__] if hasattr(value, "__slots__") else dict(value)


def unpack(to: Path) -> None:
    """A copy of the directory."""
    with tarfile.open(DIRECTORY) as archive:
        archive.extractall(to, filter="data")


async def held(root: Path) -> dict[str, Any]:
    """What the directory holds: of the stream's shard, and of the cluster's own log."""
    storage = LocalStorage(root, packs=PackSettings())
    with ThreadPoolExecutor(1) as executor:
        cluster = await opened(storage, executor, 9)
        stream = cluster.stream(PATH)
        found = {
            "shard": said(stream.shards[0]),
            "links": plain([fields(each, LINK_FIELDS) for each in cluster.links.all()]),
            "upstreams": plain([fields(each, UPSTREAM_FIELDS) for each in cluster.links.upstreams(stream.id)]),
            "streams": [each.path for each in cluster.streams()],
        }
        await cluster.close()
    storage.close()
    return found


def packed(root: Path) -> bytes:
    """The directory as an archive that says nothing of when and by whom it was made."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for path in sorted(root.rglob("*")):
            entry = archive.gettarinfo(path, str(path.relative_to(root)))
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            with path.open("rb") if path.is_file() else io.BytesIO() as content:
                archive.addfile(entry, content if path.is_file() else None)
    return lzma.compress(written.getvalue(), preset=9)


def main() -> None:
    """Make both files anew."""
    with TemporaryDirectory() as directory:
        root = Path(directory)
        asyncio.run(make(root))
        DIRECTORY.write_bytes(packed(root))
        found = asyncio.run(held(root))
    SAID.write_text("{\n" + ",\n".join(_lines(found)) + "\n}\n")


def _lines(found: dict[str, Any]) -> list[str]:
    """JSON with a line for each thing that is said of the shard, and of the cluster."""
    shard = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(found["shard"].items()))
    rest = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(found.items()) if key != "shard"]
    return [f' "shard": {{\n{shard}\n }}', *rest]


if __name__ == "__main__":
    main()
