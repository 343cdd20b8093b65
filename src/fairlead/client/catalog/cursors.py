"""Commands of `stream cursor`, and of what else consumer groups have."""

from __future__ import annotations

from fairlead.client.catalog.params import PATH
from fairlead.client.command import Command, Param

_GROUP = Param("consumergroup", "text", "only cursors of this consumer group")
_SOME_TOPIC = Param("topic", "topic", "only cursors of this topic")
_SOME_PARTITION = Param("partition", "number", "only cursors of this partition (needs -topic)")

_CURSOR = ("stream", "cursor")
COMMANDS = (
    Command(
        _CURSOR,
        "list",
        "List the committed offsets of consumer groups.",
        (PATH, _GROUP, _SOME_TOPIC, _SOME_PARTITION),
        columns=("consumergroup", "topic", "partitionid", "committedoffset", "produceroffset", "consumerlagmillis"),
    ),
    Command(
        _CURSOR,
        "delete",
        "Delete committed offsets of consumer groups.",
        (PATH, _GROUP, _SOME_TOPIC, _SOME_PARTITION),
        changes=True,
        asks="Delete the chosen cursors of {path}?",
    ),
    Command(
        _CURSOR,
        "adopt",
        "Let a group go on here from what was committed at another site last (ours).",
        (PATH, Param("consumergroup", "text", "the consumer group", required=True), _SOME_TOPIC, _SOME_PARTITION),
        changes=True,
        asks="Let {consumergroup} go on in {path} from what was committed at another site?",
    ),
    Command(
        ("stream", "failover"),
        "preview",
        "Show where a group would go on in this cluster if it came here now (ours).",
        (PATH, Param("group", "text", "the consumer group", required=True)),
        columns=(
            "topic",
            "partitionid",
            "committedoffset",
            "goesonat",
            "skips",
            "readsagain",
            "commitageseconds",
            "committedin",
        ),
    ),
)
NOT_BUILT = (
    Command(
        ("stream", "assign"),
        "list",
        "Show which consumer has which partitions (not built yet).",
        (PATH, _GROUP, _SOME_TOPIC, _SOME_PARTITION, Param("detail", "boolean", "with inner values", default="false")),
        built=False,
    ),
)
