"""From options and positions to tasks. Runs on Spark's driver; asks the server, and reads columns only to count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairlead.model.errors import InvalidValue, UnknownTopic
from fairlead.records.choosing import Chooser
from fairlead.records.client import RecordsClient, ShardPlan, StreamPlan, TopicPlan
from fairlead.records.limiting import backlog_of, ends_of
from fairlead.records.options import LATEST, OFFSET_EARLIEST, OFFSET_LATEST, Options, PerPartition
from fairlead.records.position import Offsets, RecordsPosition, ShardPosition
from fairlead.records.reading import report_loss
from fairlead.records.task import Choice, RecordsLost, Task
from fairlead.storage.local import ReadOnlyLocalStorage

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
        starting = self._starting_offsets()
        ending = {} if isinstance(self.options.ending, str) else self._resolve(self.options.ending, "endingOffsets")
        everything = {shard.shard: ShardPosition(0, "", _NOTHING_IS_LOST) for shard in plan.shards}
        ends = {shard.shard: shard.end for shard in plan.shards}
        return self._tasks(plan, everything, ends, _Limits(starting, ending), pushed)

    def initial(self) -> RecordsPosition:
        """Where a new streaming query begins. Raises: as `batch`."""
        plan = self.client.ends()
        self._check_topics()
        starting = self._starting_offsets()
        from_end = self.options.starting in (None, LATEST) and self.options.starting_time_ms is None
        shards = {s.shard: _position(s, s.end if from_end else s.begin, s.end) for s in plan.shards}
        return RecordsPosition(plan.stream, shards, starting, self.options.chosen)

    def ends(self) -> dict[int, int]:
        """Where each shard ends now."""
        return {shard.shard: shard.end for shard in self.client.ends().shards}

    def latest(
        self, start: RecordsPosition, max_records: int | None = None, until: Mapping[int, int] | None = None
    ) -> RecordsPosition:
        """The end of the log now (or `until`), or an earlier place, so that at most `max_records` more are read (but at
        least one commit). It never lies before `start`."""
        plan = self._checked(self.client.ends(), start)
        ends: dict[int, ShardPosition] = {}
        for shard in plan.shards:
            known = start.shards[shard.shard]
            commit = max(min(shard.end, (until or {}).get(shard.shard, shard.end)), known.commit)
            ends[shard.shard] = _position(shard, commit, known.began)
        end = replace(start, shards=ends, topics=self.options.chosen)
        if max_records is None and not start.starting:
            return end
        plan = self.client.objects(start.commits(), end.commits())
        end = replace(end, starting=_lowered(start, plan.shards))
        return end if max_records is None else self._limited(plan, start, end, max_records)

    def tasks(self, start: RecordsPosition, end: RecordsPosition) -> list[Task]:
        """Tasks for the commits between two positions. Where the query began, `end` says.

        Raises:
            RecordsLost: the log was rolled back.
            InvalidValue: the stream at the path is not the checkpoint's, or other topics are chosen.
        """
        since = {shard: _since(start.shards[shard], position) for shard, position in end.shards.items()}
        first = {shard: position.commit for shard, position in since.items()}
        plan = self._checked(self.client.objects(first, end.commits()), end)
        return self._tasks(plan, since, end.commits(), _Limits(end.starting, {}), Pushed())

    def _starting_offsets(self) -> Offsets:
        """The offsets at which partitions begin, if the options name any."""
        if self.options.starting_time_ms is not None:
            found = self.client.offsets_at(self.options.topics, self.options.starting_time_ms)
            return {place: dict(enumerate(offsets)) for place, offsets in found.items()}
        if self.options.starting is None or isinstance(self.options.starting, str):
            return {}
        return self._resolve(self.options.starting, "startingOffsets", loss_counts=True)

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

    def _checked(self, plan: StreamPlan, known: RecordsPosition) -> StreamPlan:
        """The plan, once it proves to be of the log that the known position was in."""
        if plan.stream != known.stream:
            raise InvalidValue(
                f"the checkpoint is of another stream that was at {plan.path} before; begin with a new checkpoint"
            )
        if known.topics not in {"", self.options.chosen}:
            raise InvalidValue(
                "options topics, topicPattern: the query began with others, and its position does not say where topics "
                "begin that are chosen later; give those, or begin with a new checkpoint"
            )
        for shard in plan.shards:
            position = known.shards[shard.shard]
            if not shard.knows(position.epoch, position.commit):
                raise RecordsLost(
                    f"{plan.path} was rolled back: its log does not know commit {position.commit - 1} as it was read "
                    "before; begin with a new checkpoint"
                )
        return plan

    def _limited(
        self, plan: StreamPlan, start: RecordsPosition, end: RecordsPosition, max_records: int
    ) -> RecordsPosition:
        files, topics = ReadOnlyLocalStorage(Path(plan.root)), self._topics_of(Pushed())
        waiting = {}
        for shard in plan.shards:
            first, until = start.shards[shard.shard].commit, end.shards[shard.shard].commit
            known = _in_shard(topics, shard.shard)
            choice = Choice(shard.shard, first, until, known, self.options.topic_pattern, cuts=shard.cuts)
            waiting[shard.shard] = backlog_of(files, shard.objects, Chooser(choice, self.client), max_records)
        ends = ends_of(waiting, max_records)
        shards = {s.shard: _position(s, ends[s.shard], end.shards[s.shard].began) for s in plan.shards}
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


def _since(start: ShardPosition, end: ShardPosition) -> ShardPosition:
    """Where a micro-batch begins. Spark keeps where the first one ends, but not where it began: when it runs, and runs
    again after a restart, Spark asks anew for the query's beginning, which is a later one by then. It shows by another
    `began`, and what `end` has kept of the true beginning counts."""
    commit = start.commit if start.began == end.began else min(start.commit, end.began)
    return replace(start, commit=commit, began=end.began)


def _lowered(start: RecordsPosition, shards: Iterable[ShardPlan]) -> Offsets:
    """The offsets at which partitions begin, not above where these were cut since the query began: the records that
    stand there now are not those that it was told to leave out."""
    starting = {topic: dict(offsets) for topic, offsets in start.starting.items()}
    for shard in shards:
        for number, partition, offset, commit, _ in shard.cuts:
            offsets = starting.get((shard.shard, number), {})
            if partition in offsets and commit >= start.shards[shard.shard].began:
                offsets[partition] = min(offset, offsets[partition])
    return starting


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
