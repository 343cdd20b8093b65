"""Rules of who owns a topic, each with a seed that notices that it is off."""

from __future__ import annotations

from tests.properties.actions import MOVES
from tests.properties.switching import Mutation

_CLAIMS = "streamlog.applying.claims:"
_HISTORIES = "streamlog.ownership.histories:"
_OWNERSHIP = "streamlog.requests.ownership:"
_ROWS = "streamlog.applying.rows:FrameRows."
_TOPICS = "streamlog.applying.topics:TopicRows."
OF_OWNERS = [
    Mutation(
        "cut",
        "what is not in the new owner's history is cut off",
        _CLAIMS + "cut_to_owner",
        "found = list(partings(draft, topic))",
        "found = []",
        2,
        MOVES,
    ),
    Mutation(
        "cut-at-once",
        "the cut is in the commit of the row that it follows from",
        _TOPICS + "_known",
        "self._release(topic, row)",
        "pass",
        2,
        MOVES,
    ),
    Mutation(
        "parting-at-the-owners-end",
        "two histories part where the newest epoch that both have ends, in the owner's log too",
        _HISTORIES + "parting",
        "return min(end, ends[epoch])",
        "return end",
        2,
        MOVES,
    ),
    Mutation(
        "parting-without-an-epoch",
        "histories without a common epoch part where the later one begins, at the latest",
        _HISTORIES + "parting",
        "return min(first, next((at for epoch, at in earlier if epoch > newest), end))",
        "return end",
        4,
        MOVES,
    ),
    Mutation(
        "superseded",
        "what is not in the owner's history is dropped when it comes late",
        _ROWS + "_batch",
        "row.epoch < topic.epoch and self._is_superseded(topic, row)",
        "False",
        10,
        MOVES,
    ),
    Mutation(
        "superseded-by-since",
        "where an epoch of before ends, the owner's row says",
        _ROWS + "_is_superseded",
        "beginning_of(topic.since, row.partition)",
        "(0, ())",
        0,
        MOVES,
    ),
    Mutation(
        "start-clipped",
        "a START row of an owner of before says nothing of the present owner's log",
        _ROWS + "_start",
        "if payload.epoch < topic.epoch:",
        "if False:",
        3,
        MOVES,
    ),
    Mutation(
        "missing-is-noted",
        "what is missing of the new owner's history is noted behind",
        _CLAIMS + "cut_to_owner",
        "if end < beginning_of(topic.since, partition)[0]:",
        "if False:",
        70,
        MOVES,
    ),
    Mutation(
        "hear",
        "a source takes the later owners of which its destination tells",
        _CLAIMS + "hear",
        "claim_of(known, payload, admission, draft.stream_id) is Claim.NEW_OWNER",
        "False",
        5,
        MOVES,
    ),
    Mutation(
        "pending",
        "a new owner writes a partition only from where its epoch begins",
        _OWNERSHIP + "check_may_write",
        "if not is_active(topic, partition, state):",
        "if False:",
        11,
        MOVES,
    ),
]
