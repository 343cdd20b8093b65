"""Rules that are switched off one at a time, each by a line of the program that is replaced while a simulation runs.

A mutation that no seed notices is a rule without a test, or no rule. The line must be in its function exactly once, so
a table that has grown old says so.
"""

from __future__ import annotations

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
    code = compile(source[at:], function.__code__.co_filename, "exec", annotations.compiler_flag)
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
        6,
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
        6,
    ),
    Mutation(
        "origin-rule",
        "a partner brings only what is its own",
        _TOPICS + "topic",
        "if not self._admission.speaks_for(payload.owner):\n        self._notes.refuse",
        "if False:\n        self._notes.refuse",
        47,
    ),
    Mutation(
        "tombstone",
        "rows of a deleted incarnation are dropped",
        _TOPICS + "topic",
        "tombstone = self._draft.state.tombstone(named.incarnation)",
        "tombstone = None",
        62,
    ),
    Mutation(
        "deletion",
        "a deletion is applied",
        _TOPICS + "topic_deleted",
        "self._bury(known, payload, row)\n    release_waiting",
        "release_waiting",
        0,
    ),
    Mutation(
        "unknown-deletion",
        "a deletion of what was never here is remembered",
        _TOPICS + "topic_deleted",
        "self._bury(known, payload, row)\n        return",
        "return",
        23,
    ),
    Mutation(
        "newer-version",
        "an older version of a topic changes nothing",
        "streamlog.applying.claims:claim_of",
        "if row.version > known.version:",
        "if True:",
        0,
    ),
    Mutation(
        "gap",
        "what expired unsent is a gap",
        _ROWS + "_place_start",
        "self._put_start(topic, row, payload, state, state.end)",
        "pass",
        3,
    ),
    Mutation(
        "deleted-to",
        "the owner's deletion of records holds at replicas",
        _ROWS + "_delete_records",
        "if deleted_to > state.deleted_to:",
        "if False:",
        7,
    ),
    Mutation(
        "position-goes-back",
        "a position never goes back",
        _FRAME + "_record",
        "if frame.to_commit > at",
        "",
        10,
    ),
    Mutation(
        "from-check",
        "a frame that begins beyond the position is refused",
        _FRAME + "_refusal",
        "any(frame.from_commit > (0 if each is None else each.commit) for each in known)",
        "False",
        23,
    ),
    Mutation(
        "run-check",
        "a frame of an older run is refused",
        _FRAME + "_refusal",
        "any(each is not None and frame.run < each.run for each in known)",
        "False",
        243,
    ),
    Mutation(
        "pieces",
        "of a frame in pieces only the last one moves the position",
        "gateway.apply.session:pieces",
        "to_commit=frame.from_commit, ",
        "",
        202,
    ),
    Mutation(
        "rescan",
        "a source that was rolled back is noticed",
        "streamlog.reading.announced:AnnouncedLog.knows",
        "return commit <= self.end and epoch_before(self.epochs, commit).id == epoch_id",
        "return commit <= self.end",
        1007,
    ),
    Mutation(
        "forward-own",
        "with forward own, only what began here goes on",
        "streamlog.reading.slices:sendable",
        "if route.own_only:",
        "if False:",
        7,
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
        "streamlog.requests.produce:produce",
        "check_may_write(draft, topic, partition, state)",
        "pass",
        35,
    ),
    Mutation(
        "owner-changes",
        "only the owner changes or deletes a topic",
        "streamlog.requests.topics:owned_topic",
        "owned(draft, topic)",
        "pass",
        35,
    ),
    Mutation(
        "owner-deletes-records",
        "only the owner deletes records",
        "streamlog.requests.deletion:delete_records",
        "check_may_write(draft, topic, partition, state)",
        "pass",
        35,
    ),
    Mutation(
        "duplicate",
        "a batch that a producer repeats is found",
        "streamlog.requests.produce:_check_sequence",
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
        "start-remembered",
        "what expires at merging leaves a START row",
        "streamlog.state.effects:_start",
        "first = max(state.start, start)",
        "first = state.start",
        48,
    ),
]
MUTATIONS = {each.name: each for each in _TABLE}
