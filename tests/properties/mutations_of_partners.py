"""Rules of what a partner may bring, each with a seed that notices that it is off."""

from __future__ import annotations

from tests.properties.actions import GROUPS, MOVES, TAILS
from tests.properties.named_stories import NAMED_STORIES
from tests.properties.switching import Mutation

OF_PARTNERS = [
    Mutation(
        "partner-takes-no-name",
        "to a partner's topic only its own topics yield",
        "streamlog.applying.topics:TopicRows._may_yield",
        "self._admission.speaks_for(topic.owner)",
        "True",
        7,
        NAMED_STORIES,
    ),
    Mutation(
        "partner-fences-nothing",
        "a partner's later deletion fences nothing",
        "streamlog.applying.topics:TopicRows.topic_deleted",
        "payload.epoch > tombstone.epoch and self._admission.speaks_for_all",
        "payload.epoch > tombstone.epoch",
        116,
        TAILS,
    ),
    Mutation(
        "partner-deletes-its-own",
        "a partner deletes only its own topics",
        "streamlog.applying.topics:TopicRows.topic_deleted",
        "known is not None and not self._admission.speaks_for(known.owner)",
        "False",
        130,
        MOVES,
    ),
    Mutation(
        "partner-buries-nothing-unknown",
        "a partner buries nothing that was never here",
        "streamlog.applying.topics:TopicRows.topic_deleted",
        "known is None and not self._admission.speaks_for_all",
        "False",
        33,
        MOVES,
    ),
    Mutation(
        "partner-cursors",
        "a partner's groups say nothing of ours",
        "streamlog.applying.cursors:CursorRows.apply",
        "not self._admission.speaks_for_all or state.tombstone(named.incarnation) is not None",
        "state.tombstone(named.incarnation) is not None",
        7,
        GROUPS,
    ),
]
