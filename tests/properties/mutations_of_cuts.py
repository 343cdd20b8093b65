"""Rules of what is cut off, kept and copied, each with a seed that notices that it is off."""

from __future__ import annotations

from tests.properties.actions import MOVES
from tests.properties.switching import Mutation

_CLAIMS = "streamlog.applying.claims:"
_DEAD = "streamlog.objects.dead:DeadRows."
_SURVIVORS = "streamlog.merging.survivors:"
OF_CUTS = [
    Mutation(
        "cut-history",
        "epochs above a cut are gone",
        "streamlog.values:PartitionState.cut_at",
        "history = tuple(entry for entry in self.history if entry[1] < offset)",
        "history = self.history",
        9,
        MOVES,
    ),
    Mutation(
        "cut-recent",
        "a batch in memory that was cut is not read",
        "streamlog.reading.recent:LogBatches.add",
        "if is_cut(row):",
        "if False:",
        9,
        MOVES,
    ),
    Mutation(
        "cut-index",
        "a commit's batch that was cut is not read",
        "streamlog.reading.index:Tail.add",
        "if is_cut(row):",
        "if False:",
        9,
        MOVES,
    ),
    Mutation(
        "cut-in-segments",
        "a segment's batch that was cut is not read",
        "streamlog.reading.places:BatchPlaces._live",
        "if not dead:",
        "if True:",
        21,
        MOVES,
    ),
    Mutation(
        "kept-in-merges",
        "a merge keeps what is not copied yet",
        _SURVIVORS + "merge",
        "| dead.kept(columns) & ~gone",
        "",
        21,
        MOVES,
    ),
    Mutation(
        "kept-by-the-first-cut",
        "what a first cut keeps stays, and only that",
        _DEAD + "kept",
        "for cuts in reversed(self._cuts):",
        "for cuts in self._cuts:",
        9,
        MOVES,
    ),
    Mutation(
        "cuts-stay",
        "merges keep the rows of cuts",
        _SURVIVORS + "_fold_starts",
        "between = []\n                yield row",
        "between = []",
        21,
        MOVES,
    ),
    Mutation(
        "kept-tail",
        "what is cut off is kept until it is copied",
        _CLAIMS + "cut_to_owner",
        "keep = diverged_incarnation(topic.incarnation, tail_epoch, topic.epoch)",
        "keep = None",
        9,
        MOVES,
    ),
    Mutation(
        "tails-of-their-epoch",
        "what different owners had written goes into different diverged topics",
        "streamlog.requests.cuts:diverged_incarnation",
        'f"{tail_epoch} {by_epoch}"',
        'f"{by_epoch}"',
        50,
        MOVES,
    ),
    Mutation(
        "copied-before-it-goes",
        "a tail is kept until all of it is copied",
        "cluster.diverged:_copy",
        "while rows := await asyncio.to_thread(diverged.read, shard.announced, tail, end):",
        "if rows := await asyncio.to_thread(diverged.read, shard.announced, tail, end):",
        9,
        MOVES,
    ),
    Mutation(
        "tail-begins-at-the-cut",
        "a copy begins where its tail does, and says what is missing of it",
        "streamlog.requests.diverged:append",
        "if begins > end:",
        "if False:",
        9,
        MOVES,
    ),
    Mutation(
        "owner-of-the-tail",
        "a diverged topic is of the stream that wrote the tail",
        "streamlog.requests.diverged:owner_of",
        "next((row.origin for row in rows if row.origin is not None), tail.topic.owner)",
        "tail.topic.owner",
        19,
        MOVES,
    ),
]
