"""Rules that only what comes in one certain order shows, each with a seed that notices that it is off."""

from __future__ import annotations

from tests.properties.stories import STORIES
from tests.properties.switching import Mutation

OF_STORIES = [
    Mutation(
        "start-behind-the-owner",
        "what an owner that is not known here says of its log's start waits for it",
        "streamlog.applying.rows:FrameRows._start",
        "if payload.epoch > topic.epoch:",
        "if False:",
        41,
        STORIES,
    ),
    Mutation(
        "cut-starts",
        "a log that is cut below its start begins where it was cut",
        "streamlog.values:PartitionState.cut_at",
        "start = min(self.start, offset)",
        "start = self.start",
        2,
        STORIES,
    ),
    Mutation(
        "whole-gaps",
        "a gap is cut as a whole",
        "streamlog.requests.cuts:_beginning",
        "if gap.start < offset < gap.end:",
        "if False:",
        2,
        STORIES,
    ),
    Mutation(
        "tombstone-of-the-last-owner",
        "a deletion by a later owner fences what the first one did not",
        "streamlog.applying.topics:TopicRows.topic_deleted",
        "payload.epoch > tombstone.epoch and",
        "False and",
        28,
        STORIES,
    ),
    Mutation(
        "deleted-copies-stay-deleted",
        "a diverged topic that was deleted is not made again",
        "streamlog.requests.diverged:append",
        "if draft.state.tombstone(tail.incarnation) is not None:",
        "if False:",
        1,
        STORIES,
    ),
    Mutation(
        "merge-over-a-cut",
        "what a merge has found expired is not what stands there since a cut",
        "streamlog.writing.upkeep:_raise_start",
        "start := min(row.base_offset, lowest)",
        "start := min(row.base_offset, known.end)",
        7,
        STORIES,
    ),
    Mutation(
        "expired-over-a-cut",
        "nor is what topics' own settings have let expire",
        "streamlog.writing.upkeep:_still_below",
        "min(found.offset, start)",
        "found.offset",
        4,
        STORIES,
    ),
    Mutation(
        "cut-gaps",
        "gaps above a cut are gone",
        "streamlog.state.shard_state:ShardState.put_cut",
        "gaps_below(self._gaps.pop((number, partition), ()), cut.offset)",
        "self._gaps.pop((number, partition), ())",
        2,
        STORIES,
    ),
]
