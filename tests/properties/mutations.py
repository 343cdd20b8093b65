"""Rules that are switched off one at a time, each by a line of the program that is replaced while a simulation runs.

A mutation that no seed notices is a rule without a test, or no rule. The line must be in its function exactly once, so
a table that has grown old says so.
"""

from __future__ import annotations

import __future__

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any


@dataclass(frozen=True, slots=True)
class Mutation:
    """A rule, and how it is switched off."""

    name: str
    rule: str
    """What holds no more."""
    where: str
    """Function, as `module:Class.method`, below `fairlead`."""
    line: str
    by: str
    """What stands in the function instead of `line`."""
    seed: int
    """Notices it."""

    def replaced(self, line: str) -> Mutation:
        """The same with another line."""
        return replace(self, line=line)


@contextmanager
def switched_off(rule: Mutation) -> Iterator[None]:
    """Meanwhile the program goes without that rule, whoever has imported the function."""
    function = _function(rule.where)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(rule.line) == 1, f"{rule.name}: {rule.line!r} is not in {rule.where}, or more than once"
    original = function.__code__
    function.__code__ = _compiled(function, source.replace(rule.line, rule.by)).__code__
    try:
        yield
    finally:
        function.__code__ = original


def _function(where: str) -> FunctionType:
    module, _, path = where.partition(":")
    found: Any = importlib.import_module(f"fairlead.{module}")
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
    found = found.fget if isinstance(found, property) else found
    assert isinstance(found, FunctionType)
    return found


def _compiled(function: FunctionType, source: str) -> FunctionType:
    """What the source defines, without its decorators."""
    at = source.index("def ") if "async def " not in source else source.index("async def ")
    code = compile(source[at:], function.__code__.co_filename, "exec", __future__.annotations.compiler_flag)
    names: dict[str, Any] = {}
    exec(code, dict(function.__globals__), names)
    made = names[function.__name__]
    assert isinstance(made, FunctionType)
    return made


_ROWS = "streamlog.applying.rows:FrameRows."
_FRAME = "streamlog.applying.frame:"
_TOPICS = "streamlog.applying.topics:TopicRows."
_TABLE = [
    Mutation(
        "behind",
        "P > E is noted behind",
        _ROWS + "_batch",
        "elif row.previous_end > state.end:",
        "elif False:",
        0,
    ),
    Mutation(
        "already-here",
        "a batch that is here is not appended again",
        _ROWS + "_batch",
        "elif row.last_offset < state.end:",
        "elif False:",
        0,
    ),
    Mutation(
        "crc",
        "a batch is taken only if its bytes hold together",
        _ROWS + "_batch",
        "elif not _holds_together(row):",
        "elif False:",
        0,
    ),
    Mutation(
        "compared",
        "a batch that stands here already is compared with what came",
        _ROWS + "_same",
        "return found == self._as_stored(row)",
        "return True",
        0,
    ),
    Mutation(
        "conflict-stays",
        "rows of a topic that is set aside do not count",
        _ROWS + "_data",
        "if note is not None and note.behind.conflict:",
        "if False:",
        0,
    ),
    Mutation(
        "new-partition",
        "a row of a partition that is not here yet is noted behind",
        _ROWS + "_data",
        'self.notes.note_behind(named, row.partition, 0, "unknown-topic")',
        "pass",
        0,
    ),
    Mutation(
        "origin-rule",
        "a partner brings only what is its own",
        _TOPICS + "topic",
        "if not self._admission.speaks_for(payload.owner, self._origin(row)):\n        self._notes.refuse",
        "if False:\n        self._notes.refuse",
        0,
    ),
    Mutation(
        "tombstone",
        "rows of a deleted incarnation are dropped",
        _TOPICS + "topic",
        "tombstone = self._draft.state.tombstone(named.incarnation)",
        "tombstone = None",
        0,
    ),
    Mutation(
        "tombstone-of-rows",
        "rows of a deleted incarnation are dropped",
        _ROWS + "_data",
        "self._draft.state.tombstone(named.incarnation) is not None",
        "False",
        0,
    ),
    Mutation(
        "deletion",
        "a deletion is applied",
        _TOPICS + "topic_deleted",
        "bury(self._draft, known, self._origin(row), self._frame.source)",
        "pass",
        0,
    ),
    Mutation(
        "unknown-deletion",
        "a deletion of what was never here is remembered",
        _TOPICS + "topic_deleted",
        "bury(self._draft, _unknown(number, named), self._origin(row), self._frame.source)",
        "pass",
        0,
    ),
    Mutation(
        "newer-version",
        "an older version of a topic changes nothing",
        _TOPICS + "_newer",
        "payload.version > known.version and",
        "",
        0,
    ),
    Mutation(
        "fewer-partitions",
        "partitions never become fewer",
        _TOPICS + "_newer",
        "payload.version > known.version and payload.partitions >= known.partitions",
        "payload.version != known.version",
        0,
    ),
    Mutation(
        "yielding",
        "a topic makes room only while it is empty",
        _TOPICS + "_may_yield",
        "self._draft.state.partition(topic.number, p).end == 0",
        "True",
        0,
    ),
    Mutation(
        "gap-only-after-its-beginning",
        "a gap that begins beyond the end is noted behind",
        _ROWS + "_start",
        "elif payload.gap_from is not None and payload.gap_from > state.end:",
        "elif False:",
        0,
    ),
    Mutation(
        "gap",
        "what expired unsent is a gap",
        _ROWS + "_start",
        "self._put_start(topic, row, payload, state, state.end)",
        "pass",
        0,
    ),
    Mutation(
        "gap-declared",
        "what expired unsent is declared as a gap",
        _ROWS + "_start",
        "self._put_start(topic, row, payload, state, state.end)",
        "self._put_start(topic, row, payload, state, None)",
        0,
    ),
    Mutation(
        "deleted-to",
        "the owner's deletion of records holds at replicas",
        _ROWS + "_delete_records",
        "if deleted_to > state.deleted_to:",
        "if False:",
        0,
    ),
    Mutation(
        "deleted-to-stays",
        "an earlier deletion of records takes nothing back",
        _ROWS + "_put_start",
        "deleted_to = max(state.deleted_to, self._deleted_to(topic, payload))",
        "deleted_to = self._deleted_to(topic, payload)",
        0,
    ),
    Mutation(
        "position-goes-back",
        "a position never goes back",
        _FRAME + "apply_frame",
        "elif frame.to_commit > at:",
        "else:",
        0,
    ),
    Mutation(
        "from-check",
        "a frame that begins beyond the position is refused",
        _FRAME + "_refusal",
        'return "from" if frame.from_commit > (0 if recorded is None else recorded.commit) else ""',
        'return ""',
        0,
    ),
    Mutation(
        "run-check",
        "a frame of an older run is refused",
        _FRAME + "_refusal",
        "if recorded is not None and frame.run < recorded.run:",
        "if False:",
        0,
    ),
    Mutation(
        "pieces",
        "of a frame in pieces only the last one moves the position",
        "gateway.apply.session:pieces",
        "to_commit=frame.from_commit, ",
        "",
        0,
    ),
    Mutation(
        "piece-chain",
        "a piece is applied only after those before it",
        "gateway.apply.session:_Chain._stands",
        "return before is None or before is draft or before.commit < draft.commit or not before.rows",
        "return True",
        0,
    ),
    Mutation(
        "repair-read-to",
        "a repair clears its note only if it has read as far as the position",
        _ROWS + "finish_repair",
        "or repair.read_to < recorded",
        "",
        0,
    ),
    Mutation(
        "repair-end",
        "a repair clears its note only when the partition has come to the end that it names",
        _ROWS + "finish_repair",
        "and self._draft.state.partition(topic.number, repair.partition).end >= repair.end",
        "",
        0,
    ),
    Mutation(
        "repair-last",
        "a repair clears its note with its last frame",
        _ROWS + "finish_repair",
        "not repair.last or",
        "",
        0,
    ),
    Mutation(
        "repair-refused",
        "a repair that was refused a row does not clear the note",
        _ROWS + "finish_repair",
        "note.refused_in != run and",
        "",
        0,
    ),
    Mutation(
        "rescan",
        "a source that was rolled back is noticed",
        "streamlog.reading.announced:AnnouncedLog.knows",
        "return commit <= self.end and epoch_before(self.epochs, commit).id == epoch_id",
        "return commit <= self.end",
        0,
    ),
    Mutation(
        "forward-own",
        "with forward own, only what began here goes on",
        "streamlog.reading.slices:sendable",
        "if route.own_only:",
        "if False:",
        0,
    ),
    Mutation(
        "never-back",
        "no row goes back to where it came from",
        "streamlog.reading.slices:sendable",
        'wanted &= ~columns.has_id("origin", route.destination) & ~columns.has_id("via", route.destination)',
        "pass",
        0,
    ),
    Mutation(
        "local-rows",
        "positions and notes are never sent",
        "streamlog.reading.slices:sendable",
        "_SENT[columns.kind] & (columns.topic != NO_TOPIC)",
        "(columns.kind >= 0)",
        0,
    ),
    Mutation(
        "owner-writes",
        "only the owner gives offsets",
        "streamlog.writing.produce:_check_owner",
        "if topic.owner != draft.stream_id:",
        "if False:",
        0,
    ),
    Mutation(
        "owner-changes",
        "only the owner changes or deletes a topic",
        "streamlog.writing.topics:owned_topic",
        "if topic.owner != draft.stream_id:",
        "if False:",
        0,
    ),
    Mutation(
        "owner-deletes-records",
        "only the owner deletes records",
        "streamlog.writing.deletion:delete_records",
        "if topic.owner != draft.stream_id:",
        "if False:",
        0,
    ),
    Mutation(
        "duplicate",
        "a batch that a producer repeats is found",
        "streamlog.writing.produce:_check_sequence",
        "return batch.base_offset",
        "return None",
        0,
    ),
    Mutation(
        "producers-replayed",
        "producers are known again after a restart",
        "streamlog.state.effects:_batch",
        "_note_producer(target, row)",
        "pass",
        0,
    ),
    Mutation(
        "expired-prefix",
        "a partition expires as a prefix, and never goes beyond its end",
        "streamlog.state.effects:_expired",
        "start = min(row.base_offset, state.end)",
        "start = row.base_offset + 1",
        0,
    ),
    Mutation(
        "start-remembered",
        "what expires at merging leaves a START row",
        "streamlog.state.effects:_start",
        "first = max(state.start, start)",
        "first = state.start",
        0,
    ),
    Mutation(
        "fenced",
        "after each commit a writer looks whether another one has begun",
        "streamlog.writing.writer:ShardLog.write",
        "NO LINE YET",
        "",
        0,
    ),
]
MUTATIONS = {each.name: each for each in _TABLE}
