"""From options and positions to tasks. Runs on Spark's driver; asks the server, and reads columns only to count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fairlead.model.errors import InvalidValue, Missing, UnknownTopic
from fairlead.records.choosing import Chooser
from fairlead.records.client import RecordsClient, ShardPlan, StreamPlan, TopicPlan
from fairlead.records.options import LATEST, OFFSET_EARLIEST, OFFSET_LATEST, Options, PerPartition
from fairlead.records.position import Offsets, RecordsPosition, ShardPosition
from fairlead.records.reading import report_loss
from fairlead.records.task import Choice, RecordsLost, Task
from fairlead.storage.interface import Storage
from fairlead.storage.local import ReadOnlyLocalStorage
from fairlead.streamlog.objects.format import read_columns
from fairlead.streamlog.values import LogObject

TASK_BYTES = 32 * 1024 * 1024
"""A shard gets one more task for this many bytes."""
TASKS_MAX = 64
"""Most tasks for one shard, whatever its size: each reads the columns of all objects for its share of partitions."""
_NOTHING_IS_LOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Pushed:
    """What the filters that Spark handed down leave to be read; None: everything."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class _Limits:
    """Offsets [low, high) of partitions that are read only in part."""

    low: Offsets
    high: Offsets


class Planner:
    """Plans the reading of one stream."""

    def __init__(self, options: Options, client: RecordsClient | None = None) -> None:
        self.options = options
        self.client = client or RecordsClient(options.servers, options.path)

    def batch(self, pushed: Pushed = Pushed()) -> list[Task]:
        """Tasks that read the stream once, up to its present end.

        Raises:
            InvalidValue, UnknownTopic, UnknownStream, Unreachable
            RecordsLost: an offset that was asked for has expired.
        """
        if self.options.starting == LATEST:
            raise InvalidValue("option startingOffsets = latest: there is nothing behind it for a batch")
        plan = self.client.objects({}, {})
        self._check_topics()
        starting = self._starting_offsets(loss_counts=True)
        ending = {} if isinstance(self.options.ending, str) else self._resolve(self.options.ending, "endingOffsets")
        everything = {shard.shard: ShardPosition(0, "", _NOTHING_IS_LOST) for shard in plan.shards}
        ends = {shard.shard: shard.end for shard in plan.shards}
        return self._tasks(plan, everything, ends, _Limits(starting, ending), pushed)

    def initial(self) -> RecordsPosition:
        """Where a new streaming query begins. Raises: as `batch`."""
        plan = self.client.ends()
        self._check_topics()
        starting = self._starting_offsets(loss_counts=False)
        from_end = self.options.starting in {None, LATEST} if not starting and not self._by_time else False
        shards = {s.shard: _position(s, s.end if from_end else s.begin, s.end) for s in plan.shards}
        return RecordsPosition(plan.stream, shards, starting)

    def ends(self) -> dict[int, int]:
        """Where each shard ends now."""
        return {shard.shard: shard.end for shard in self.client.ends().shards}

    def latest(
        self, start: RecordsPosition, max_records: int | None = None, until: Mapping[int, int] | None = None
    ) -> RecordsPosition:
        """The end of the log now (or `until`), or an earlier place, so that at most `max_records` more are read (but at
        least one commit)."""
        plan = self._checked(self.client.ends(), start)
        ends = {
            s.shard: _position(s, min(s.end, (until or {}).get(s.shard, s.end)), start.shards[s.shard].began)
            for s in plan.shards
        }
        end = replace(start, shards=ends)
        return end if max_records is None else self._cut(start, end, max_records)

    def tasks(self, start: RecordsPosition, end: RecordsPosition) -> list[Task]:
        """Tasks for the commits between two positions.

        Raises:
            RecordsLost: records in between have expired, or the log was rolled back.
            InvalidValue: the stream at the path is not the checkpoint's.
        """
        plan = self._checked(self.client.objects(start.commits(), end.commits()), start)
        return self._tasks(plan, start.shards, end.commits(), _Limits(start.starting, {}), Pushed())

    @property
    def _by_time(self) -> bool:
        return self.options.starting_time_ms is not None

    def _starting_offsets(self, *, loss_counts: bool) -> Offsets:
        """The offsets at which partitions begin, if the options name any."""
        if self.options.starting_time_ms is not None:
            found = self.client.offsets_at(self.options.topics, self.options.starting_time_ms)
            return {place: dict(enumerate(offsets)) for place, offsets in found.items()}
        if self.options.starting is None or isinstance(self.options.starting, str):
            return {}
        return self._resolve(self.options.starting, "startingOffsets", loss_counts)

    def _resolve(self, bound: PerPartition, option: str, loss_counts: bool = False) -> Offsets:
        """The offsets that a JSON of offsets means now."""
        known = {topic.name: topic for topic in self.client.topics(list(bound))}
        missing = sorted(bound.keys() - known.keys())
        if missing:
            raise UnknownTopic(f"option {option}: topic {', '.join(missing)} does not exist in {self.options.path}")
        return {
            (topic.shard, topic.number): {
                partition: self._offset(topic, partition, offset, option, loss_counts)
                for partition, offset in bound[topic.name].items()
            }
            for topic in known.values()
        }

    def _offset(self, topic: TopicPlan, partition: int, offset: int, option: str, loss_counts: bool) -> int:
        place = f"topic {topic.name}, partition {partition}"
        if not 0 <= partition < len(topic.partitions):
            raise InvalidValue(f"option {option}: {place} does not exist, there are {len(topic.partitions)}")
        start, end = topic.partitions[partition]
        if offset in {OFFSET_LATEST, OFFSET_EARLIEST}:
            return end if offset == OFFSET_LATEST else start
        if offset > end:
            raise InvalidValue(f"option {option}: {place} ends at {end}, before {offset}")
        if offset < start and loss_counts:
            report_loss(f"{place}: offset {offset} was asked for, {start} is the first", self.options.fail_on_data_loss)
        return offset

    def _check_topics(self) -> None:
        if self.options.topics is not None:
            known = {topic.name for topic in self.client.topics(self.options.topics)}
            missing = [name for name in self.options.topics if name not in known]
            if missing:
                raise UnknownTopic(f"topic {', '.join(missing)} does not exist in {self.options.path}")

    def _checked(self, plan: StreamPlan, start: RecordsPosition) -> StreamPlan:
        """The plan, once it proves to be of the log that `start` was in."""
        if plan.stream != start.stream:
            raise InvalidValue(
                f"the checkpoint is of another stream that was at {plan.path} before; begin with a new checkpoint"
            )
        for shard in plan.shards:
            self._check_shard(plan, shard, start.shards[shard.shard])
        return plan

    def _check_shard(self, plan: StreamPlan, shard: ShardPlan, start: ShardPosition) -> None:
        if not shard.knows(start.epoch, start.commit):
            raise RecordsLost(
                f"{plan.path} was rolled back: its log does not know commit {start.commit - 1} as it was read before; "
                "begin with a new checkpoint"
            )
        if shard.begin > start.commit:
            report_loss(
                f"{plan.path}: commits {start.commit} to {shard.begin - 1} have expired before they were read",
                self.options.fail_on_data_loss,
            )

    def _cut(self, start: RecordsPosition, end: RecordsPosition, max_records: int) -> RecordsPosition:
        plan = self.client.objects(start.commits(), end.commits())
        shards = dict(end.shards)
        for shard in plan.shards:
            first, until = start.shards[shard.shard].commit, shards[shard.shard].commit
            topics = _in_shard(self._topics_of(Pushed()), shard.shard)
            choice = Choice(shard.shard, first, until, topics, self.options.topic_pattern, cuts=shard.cuts)
            chooser = Chooser(choice, self.client)
            commit, counted = _count(ReadOnlyLocalStorage(Path(plan.root)), shard.objects, chooser, max_records)
            shards[shard.shard] = _position(shard, commit, start.shards[shard.shard].began)
            max_records = max(max_records - counted, 0)
        return replace(end, shards=shards)

    def _topics_of(self, pushed: Pushed) -> list[TopicPlan] | None:
        """The topics to be read, if there is a list of them: Kafka's `endingOffsets` name all topics that are read."""
        lists = [set(names) for names in (self.options.topics, pushed.topics) if names is not None]
        if isinstance(self.options.ending, dict):
            lists.append(set(self.options.ending))
        return self.client.topics(sorted(set.intersection(*lists))) if lists else None

    def _tasks(
        self,
        plan: StreamPlan,
        start: Mapping[int, ShardPosition],
        ends: Mapping[int, int],
        limits: _Limits,
        pushed: Pushed,
    ) -> list[Task]:
        topics = self._topics_of(pushed)
        tasks: list[Task] = []
        for shard in (shard for shard in plan.shards if shard.objects):
            choice = Choice(
                shard.shard,
                start[shard.shard].commit,
                ends[shard.shard],
                _in_shard(topics, shard.shard),
                self.options.topic_pattern,
                _above(_by_partition(limits.low, shard.shard), shard.deleted),
                _by_partition(limits.high, shard.shard),
                pushed.partitions,
                shard.cuts,
            )
            tasks += self._dealt(plan, shard, choice, start[shard.shard].began)
        return tasks

    def _dealt(self, plan: StreamPlan, shard: ShardPlan, choice: Choice, began: int) -> Iterable[Task]:
        files = ReadOnlyLocalStorage(Path(plan.root))
        size_bytes = sum(files.size(found.name) or 0 for found in shard.objects)
        shares = min(max(self.options.min_partitions, -(-size_bytes // TASK_BYTES)), TASKS_MAX)
        whole = Task(
            self.options.servers,
            self.options.path,
            plan.root,
            shard.objects,
            choice,
            self.options.columns,
            began,
            self.options.fail_on_data_loss,
            self.options.check_crcs,
        )
        return [replace(whole, choice=replace(choice, share=share, shares=shares)) for share in range(shares)]


def _position(shard: ShardPlan, commit: int, began: int) -> ShardPosition:
    return ShardPosition(commit, shard.epoch_id(commit), began)


def _in_shard(topics: Sequence[TopicPlan] | None, shard: int) -> dict[int, str] | None:
    return None if topics is None else {topic.number: topic.name for topic in topics if topic.shard == shard}


def _by_partition(offsets: Offsets, shard: int) -> dict[tuple[int, int], int]:
    return {
        (number, partition): offset
        for (of_shard, number), places in offsets.items()
        if of_shard == shard
        for partition, offset in places.items()
    }


def _above(low: dict[tuple[int, int], int], deleted: Iterable[tuple[int, int, int]]) -> dict[tuple[int, int], int]:
    """The offsets that are wanted, without those that were deleted."""
    for number, partition, offset in deleted:
        low[number, partition] = max(offset, low.get((number, partition), 0))
    return low


def _runs(objects: Sequence[LogObject]) -> Iterator[list[LogObject]]:
    """Groups of objects, in order; objects that share commits are in one group."""
    run: list[LogObject] = []
    for found in sorted(objects, key=lambda each: each.first):
        if run and found.first >= max(each.end for each in run):
            yield run
            run = []
        run.append(found)
    if run:
        yield run


def _count(files: Storage, objects: Sequence[LogObject], chooser: Chooser, max_records: int) -> tuple[int, int]:
    """The commit before which at most `max_records` lie (but at least one commit), and their number."""
    counted = 0
    for run in _runs(objects):
        commits, records = _records_of(files, [found.name for found in run], chooser)
        for commit, count in zip(commits, records, strict=True):
            if counted + count > max_records and commit > chooser.choice.first:
                return commit, counted
            counted += count
    return chooser.choice.end, counted


def _records_of(files: Storage, names: Sequence[str], chooser: Chooser) -> tuple[list[int], list[int]]:
    """The commits that hold chosen records, in order, and how many each holds."""
    commits, records = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for name in names:
        try:
            columns = read_columns(files, name)
        except Missing:  # merged since; the limit is soft, and the task finds its records
            continue
        places = chooser.batches(columns)
        commits.append(columns.commit[places])
        records.append(columns.records[places].astype(np.int64))
    distinct, place = np.unique(np.concatenate(commits), return_inverse=True)
    counts = np.bincount(place, weights=np.concatenate(records), minlength=len(distinct))
    return distinct.tolist(), counts.astype(np.int64).tolist()
