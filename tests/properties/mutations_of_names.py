"""Rules of names, of prefixes and of conflicts of names, each with a seed that notices that it is off.

Rules that only a stream of several shards needs (a topic keeps its shard) are not here: sites have one shard.
"""

from __future__ import annotations

from tests.properties.named_worlds import NAMES
from tests.properties.switching import Mutation

_TOPICS = "streamlog.applying.topics:TopicRows."
_CLAIMS = "streamlog.applying.claims:"
_REQUESTS = "streamlog.requests.topics:"
OF_NAMES = [
    Mutation(
        "prefix",
        "a topic that a link brings first is called by its prefix and the sender's name",
        _TOPICS + "_topic_payload",
        "name = prefixed(self._admission.prefix, payload.name)",
        "name = payload.name",
        1,
        NAMES,
    ),
    Mutation(
        "home",
        "what the owner calls a topic is passed on by sites that call it otherwise",
        _TOPICS + "_topic_payload",
        "home=payload.home or payload.name)",
        "home=name)",
        1,
        NAMES,
    ),
    Mutation(
        "one-name",
        "a topic keeps the name by which it came first",
        _CLAIMS + "changed",
        "topic._replace(name=known.name, partitions=partitions)",
        "topic._replace(partitions=partitions)",
        2,
        NAMES,
    ),
    Mutation(
        "rename",
        "a name that its owner gives a topic holds wherever it is",
        _CLAIMS + "renamed",
        "if not has_other_name(known, payload) or payload.name == known.name:",
        "if True:",
        12,
        NAMES,
    ),
    Mutation(
        "rename-to-a-free-name",
        "a topic keeps its name where the new one is taken",
        _CLAIMS + "renamed",
        "draft.state.by_name(payload.name) is None and",
        "",
        3,
        NAMES,
    ),
    Mutation(
        "renamed-into-a-link",
        "a topic whose new name a link lets by brings its past",
        _TOPICS + "_bring_what_was_left_out",
        "self._bring(payload_of(topic), ends)",
        "pass",
        16,
        NAMES,
    ),
    Mutation(
        "possible-name",
        "a name that cannot be is a conflict of that topic alone",
        _TOPICS + "topic",
        "if not (is_topic_name(payload.name) and self._admission.falls_here(payload.name)):",
        "if False:",
        1,
        NAMES,
    ),
    Mutation(
        "held-name",
        "a topic with records keeps its name",
        _TOPICS + "_may_yield",
        "not any(self._held_records(topic, partition) for partition in range(topic.partitions))",
        "True",
        1,
        NAMES,
    ),
    Mutation(
        "yield-later",
        "an empty topic yields when the first record of the one that waits comes",
        _TOPICS + "try_waiting",
        "if holder is None or self._may_yield(holder):",
        "if holder is None:",
        11,
        NAMES,
    ),
    Mutation(
        "waits-noted",
        "a topic that waits for its name is noted",
        _TOPICS + "_wait",
        "self._notes.note_all(payload, range(payload.partitions), reason, payload)",
        "pass",
        1,
        NAMES,
    ),
    Mutation(
        "waits-no-more",
        "what was dropped while a topic waited is brought when it has a name",
        _TOPICS + "_end_waiting",
        "self._notes.note_missing(payload, partition, end)",
        "self._notes.clear(note.behind)",
        11,
        NAMES,
    ),
    Mutation(
        "alias",
        "where names are given by themselves, a topic whose name is taken gets one with its first record",
        _TOPICS + "try_waiting",
        "and self._admission.aliases",
        "and False",
        12,
        NAMES,
    ),
    Mutation(
        "free-by-deletion",
        "the name of a topic that is deleted goes to that which waits for it",
        _REQUESTS + "delete_topic",
        "release_waiting(draft, name)",
        "pass",
        18,
        NAMES,
    ),
    Mutation(
        "free-by-a-deletion-that-comes",
        "the same where the deletion comes from the owner",
        _TOPICS + "topic_deleted",
        "release_waiting(self._draft, known.name)",
        "pass",
        5,
        NAMES,
    ),
    Mutation(
        "free-by-rename",
        "a name that is given up goes to the topic that waits for it",
        _REQUESTS + "rename_topic",
        "release_waiting(draft, name)",
        "pass",
        22,
        NAMES,
    ),
]
