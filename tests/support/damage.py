"""Data directories whose objects are harmed, and the judge of what a server then says and serves.

    made       a directory with records in some topics, in each of the `STATES`; every record in it was acknowledged
    HARMS      what happens to one file
    judged     check the directory, start a server on it, read everything, produce on, start again, read again

A judgement is one of these, and a test compares it with its table:

    loud       `fsck`, the start or a read names what is wrong
    harmless   every record is served at its offset, and nothing is said
    newest     the newest records are gone and nothing is said: the one loss that a log cannot know
    silent     anything else: a record gone without a word, another one in its place, an offset given again
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.values import StreamSettings
from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.errors import Damaged, FairleadError
from fairlead.model.settings import Settings
from fairlead.protocol.batch import read_header, records_of
from fairlead.storage import identity, names
from fairlead.storage.local import LocalStorage, ReadOnlyLocalStorage
from fairlead.streamlog.fsck import check_all
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.merging.garbage import Replaced
from fairlead.streamlog.writing.shard import Shard
from fairlead.streamlog.writing.writer import ShardLog
from tests.streamlog.world import batch_of, installed
from tests.support.batches import produced_to
from tests.support.packs import always_packed

NAME: Final = "sanfrancisco"
TOPICS: Final = (("/default", "a"), ("/default", "b"), ("/ships", "c"))
PACK_BYTES: Final = 256 * 1024
Verdict = Literal["loud", "harmless", "newest", "silent"]
Records = dict[tuple[str, str], dict[int, bytes]]
"""By stream and topic: every value by its offset."""
Open = Callable[[Path], LocalStorage]


def packed(root: Path) -> LocalStorage:
    """The directory as a server opens it once it has put its first commits: those that follow go into packs."""
    return always_packed(root, packs_max=1, pack_bytes=PACK_BYTES)


def in_files(root: Path) -> LocalStorage:
    """The same before that: every commit is a file."""
    return LocalStorage(root)


@dataclass(frozen=True)
class Home:
    """A data directory with what was acknowledged in it."""

    root: Path
    records: Records = field(default_factory=lambda: {topic: {} for topic in TOPICS})
    earlier: dict[str, bytes] = field(default_factory=dict)
    """The bytes of its files at an earlier time, by path below the root."""
    opened: Open = packed

    def copied(self, root: Path) -> Home:
        """The same in another place, to be harmed."""
        shutil.copytree(self.root, root)
        return replace(self, root=root)

    def note_earlier(self) -> None:
        """Remember all files as they are now."""
        for file in files_of(self.root):
            self.earlier[str(file.relative_to(self.root))] = file.read_bytes()

    def files(self, pattern: str) -> list[Path]:
        """Files below the root, in order; the last one is the newest where their names are numbers."""
        return sorted(file for file in self.root.glob(pattern) if file.is_file())

    def older(self, file: Path) -> bytes | None:
        """The file at the earlier time, if it was there and was another."""
        found = self.earlier.get(str(file.relative_to(self.root)))
        return None if found == file.read_bytes() else found


def files_of(root: Path) -> Iterator[Path]:
    return (file for file in root.rglob("*") if file.is_file())


# ---------------------------------------------------------------- servers


@asynccontextmanager
async def running(home: Home) -> AsyncIterator[Cluster]:
    """A server's cluster on the directory, without its listeners. Nothing is merged by itself."""
    storage = home.opened(home.root)
    try:
        with ThreadPoolExecutor(4) as executor:
            cluster = await Cluster.open(
                storage,
                name=NAME,
                settings=Settings(merge_idle_seconds=3600, merge_interval_seconds=3600),
                clock=SystemClock(),
                randomness=SystemRandomness(),
                executor=executor,
            )
            try:
                yield cluster
            finally:
                await cluster.close()
    finally:
        storage.close()


async def produced(cluster: Cluster, home: Home, *values: bytes) -> None:
    """Each value once in each topic, in commits of its own."""
    for value in values:
        for path, topic in TOPICS:
            shard, found = cluster.stream(path).topic(topic)
            result = await produced_to(shard, found.number, 0, batch_of(value + topic.encode()))
            home.records[path, topic][result.base_offset] = value + topic.encode()


async def with_topics(cluster: Cluster) -> None:
    """All of `TOPICS`."""
    await cluster.create_stream("/ships", StreamSettings())
    for path, topic in TOPICS:
        await cluster.stream(path).create_topic(topic, 1)


def values(first: int, count: int = 4) -> list[bytes]:
    """Values that no other call gives, of two sizes: in one block of a pack, and in several."""
    return [b"%d:" % number + bytes([number]) * (100 if number % 2 else 9000) for number in range(first, first + count)]


async def _filled(cluster: Cluster, home: Home) -> None:
    await with_topics(cluster)
    await produced(cluster, home, *values(0))
    home.note_earlier()
    await produced(cluster, home, *values(10))


async def _fresh(home: Home) -> None:
    async with running(home) as cluster:
        await _filled(cluster, home)


async def _killed(home: Home) -> None:
    """The directory as it was in the middle of the server's life."""
    async with running(home) as cluster:
        await _filled(cluster, home)
        left = home.root.with_name(home.root.name + "-left")
        shutil.copytree(home.root, left)
    shutil.rmtree(home.root)
    left.rename(home.root)


async def _restarted(home: Home) -> None:
    async with running(home) as cluster:
        await with_topics(cluster)
        await produced(cluster, home, *values(0))
    home.note_earlier()
    async with running(home) as cluster:
        await produced(cluster, home, *values(10))


async def _merged(home: Home) -> None:
    """Commits that were merged into segments, segments that were merged again, and commits after them."""
    await _restarted(home)
    merge(home)
    async with running(home) as cluster:
        await produced(cluster, home, *values(20))
    home.note_earlier()
    merge(home)
    async with running(home) as cluster:
        await produced(cluster, home, *values(30))


def merge(home: Home) -> None:
    """Merge all commits of every log, and delete what is no longer needed."""
    storage = home.opened(home.root)
    cluster_id = identity.decode(storage.get(names.CLUSTER)).id
    for prefix in sorted({names.prefix_of(name) for name in storage.list("")} - {None}, key=str):
        assert prefix is not None
        stream_id = cluster_id if prefix == names.META else bytes.fromhex(prefix.split("/")[1])
        log = ShardLog.open(
            storage,
            prefix,
            stream_id=stream_id,
            clock=SystemClock(),
            randomness=SystemRandomness(),
            settings=Settings(merge_commits_min=2),
        )
        job = log.upkeep.plan()
        if job is None:
            continue
        installed(log, run_job.run(storage, SystemRandomness(), job))
        log.upkeep.sweep([Replaced((), job.commits)])
    storage.close()


STATES: Final = {"fresh": _fresh, "killed": _killed, "restarted": _restarted, "merged": _merged}
"""One process that was stopped; one that was killed; two, one after the other; several, with merges."""


def made(root: Path, state: str, opened: Open = packed) -> Home:
    """A directory in that state. All that was produced into it was acknowledged."""
    home = Home(root, opened=opened)
    asyncio.run(STATES[state](home))
    return home


# ---------------------------------------------------------------- harms

Harm = Callable[[Home, Path], None]
"""What happens to a file of a directory."""


class NotPossible(Exception):
    """There is no other file, or no older version: the cell says nothing."""


def _rewritten(change: Callable[[bytes], bytes]) -> Harm:
    def harm(home: Home, file: Path) -> None:
        data = file.read_bytes()
        changed = change(data)
        if changed == data:
            raise NotPossible
        file.write_bytes(changed)

    return harm


def _cut(part: float) -> Harm:
    return _rewritten(lambda data: data[: int(part * len(data))])


def _zeroed(first: float, end: float) -> Harm:
    def change(data: bytes) -> bytes:
        low, high = int(first * len(data)), max(int(end * len(data)), int(first * len(data)) + 1)
        return data[:low] + bytes(high - low) + data[high:]

    return _rewritten(change)


def flipped(place: Callable[[bytes], int]) -> Harm:
    """One bit of a byte whose place the function chooses."""

    def change(data: bytes) -> bytes:
        at = place(data)
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    return _rewritten(change)


def _flipped_at(part: float) -> Harm:
    return flipped(lambda data: min(int(part * len(data)), len(data) - 1))


def _exchanged(home: Home, file: Path) -> None:
    """With the next one of its kind in its directory, which then has its bytes."""
    others = [other for other in sorted(file.parent.iterdir()) if other.is_file() and other != file]
    if not others:
        raise NotPossible
    other = min(others, key=lambda each: (each < file, each))
    ours, theirs = file.read_bytes(), other.read_bytes()
    if ours == theirs:
        raise NotPossible
    file.write_bytes(theirs)
    other.write_bytes(ours)


def _older(home: Home, file: Path) -> None:
    older = home.older(file)
    if older is None:
        raise NotPossible
    file.write_bytes(older)


HARMS: Final[dict[str, Harm]] = {
    "removed": lambda home, file: file.unlink(),
    "emptied": _cut(0),
    "cut in the middle": _cut(0.5),
    "cut before its end": _rewritten(lambda data: data[:-1]),
    "zeroed": _zeroed(0, 1),
    "its first part zeroed": _zeroed(0, 0.1),
    "a part in the middle zeroed": _zeroed(0.45, 0.55),
    "its last part zeroed": _zeroed(0.9, 1),
    **{f"flipped at {part}": _flipped_at(part) for part in (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)},
    "exchanged with another": _exchanged,
    "exchanged with an older version": _older,
}
"""Every object of one kind or another may meet these."""


# ---------------------------------------------------------------- the judge


@dataclass
class Judgement:
    """What was said, and what was served."""

    said: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Whatever no word excuses: other records, offsets that are given again."""
    lost: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """Offsets of records that were not served."""
    only_newest: bool = True
    """What is lost lay behind all that is served."""

    @property
    def verdict(self) -> Verdict:
        if self.wrong:
            return "silent"
        if self.said:
            return "loud"
        if self.lost:
            return "newest" if self.only_newest else "silent"
        return "harmless"


def judged(home: Home) -> Judgement:
    """What becomes of a directory that was harmed: checked, started, read, written to, and all of it once more."""
    return asyncio.run(_judged(home))


async def _judged(home: Home) -> Judgement:
    found = Judgement()
    found.said += checked(home.root)
    after = replace(home, records={topic: dict(records) for topic, records in home.records.items()})
    await _served(after, found)
    if not found.said and not found.lost:
        await _served(after, found)  # with what the first one wrote
        found.said += checked(home.root)
    return found


def checked(root: Path) -> list[str]:
    """What `fairlead fsck` finds."""
    storage = ReadOnlyLocalStorage(root)
    try:
        return [f"fsck: {problem}" for problem in [*storage.check(), *check_all(storage)]]
    except FairleadError as error:
        return [f"fsck: {error}"]


async def _served(home: Home, found: Judgement) -> None:
    try:
        async with running(home) as cluster:
            found.said += [f"start: {error}" for error in cluster.damaged.values()]
            for path, topic in TOPICS:
                await _topic_judged(cluster, home, path, topic, found)
    except FairleadError as error:
        found.said.append(f"start: {error}")


async def _topic_judged(cluster: Cluster, home: Home, path: str, topic: str, found: Judgement) -> None:
    expected = home.records[path, topic]
    try:
        shard, known = cluster.stream(path).topic(topic)
    except Damaged as error:
        found.said.append(f"topic {topic}: {error}")
        return
    except FairleadError:
        found.lost[path, topic], found.only_newest = list(expected), False
        return
    served: dict[int, bytes] = {}
    try:
        served.update(_records(shard, known.number))
    except FairleadError as error:
        found.said.append(f"read of {topic}: {error}")
    found.wrong += [f"{topic}: another record at {at}" for at, value in served.items() if expected.get(at) != value]
    lost = [offset for offset in expected if offset not in served]
    if lost:
        found.lost[path, topic] = lost
        found.only_newest &= min(lost) > max(served, default=-1)
    await _produced_on(shard, known.number, home, (path, topic), found)


def _records(shard: Shard, number: int) -> Iterator[tuple[int, bytes]]:
    state = shard.announced.state.partition(number, 0)
    at = state.start
    while at < state.end:
        batches = shard.reader.fetch(number, 0, at, 1 << 20).batches
        if not batches:
            return
        for batch in batches:
            for record in records_of(batch):
                if record.offset >= at and record.value is not None:
                    yield record.offset, record.value
            at = read_header(batch).last_offset + 1


async def _produced_on(shard: Shard, number: int, home: Home, topic: tuple[str, str], found: Judgement) -> None:
    """One more record: its offset must be nobody's."""
    value = b"one more"
    try:
        result = await produced_to(shard, number, 0, batch_of(value))
    except FairleadError as error:
        found.said.append(f"produce to {topic[1]}: {error}")
        return
    offset = result.base_offset
    if offset in home.records[topic] and not (found.only_newest and not found.said):
        found.wrong.append(f"{topic[1]}: offset {offset} is given again")
    home.records[topic][offset] = value
