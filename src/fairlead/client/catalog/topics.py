"""Commands of `stream topic`."""

from __future__ import annotations

from dataclasses import replace

from fairlead.client.catalog.params import CHOSEN, PATH
from fairlead.client.command import Command, Param

_TOPIC = Param("topic", "topic", "name of the topic", required=True)
_TOPIC_NOUN = ("stream", "topic")
_TIMESTAMP_TYPE = Param("timestamptype", "text", "createtime or logappendtime", default="the stream's")
_CHANGED_TYPE = replace(_TIMESTAMP_TYPE, default="as it is")
_TOPICS = Param(
    "topic",
    "text",
    "a name, a regular expression, or names with line breaks between; @FILE reads them from a file",
    required=True,
)
COMMANDS = (
    Command(
        _TOPIC_NOUN,
        "create",
        "Make a topic.",
        (PATH, _TOPIC, Param("partitions", "number", "partitions", default="the stream's"), _TIMESTAMP_TYPE),
        changes=True,
    ),
    Command(
        _TOPIC_NOUN,
        "edit",
        "Add partitions to a topic, or change its kind of time stamp.",
        (PATH, _TOPIC, Param("partitions", "number", "partitions; more than now"), _CHANGED_TYPE),
        changes=True,
    ),
    Command(
        _TOPIC_NOUN,
        "info",
        "Show a topic, a row for each partition.",
        (PATH, _TOPIC),
        columns=(
            "partitionid",
            "minoffset",
            "maxoffset",
            "topicepoch",
            "owner",
            "ownersince",
            "pendingrecords",
            "handover",
            "diverged",
            "divergedfrom",
            "putaside",
            "putasidefor",
            "unclaimedrecords",
            "conflicts",
            "timestamptype",
        ),
    ),
    Command(
        _TOPIC_NOUN,
        "list",
        "List the topics of a stream.",
        (
            PATH,
            Param("owner", "text", "only topics that this cluster, or the stream at this path, owns (ours)"),
            *CHOSEN,
        ),
        columns=("topic", "partitions", "consumers", "maxlag", "owner"),
    ),
    Command(
        _TOPIC_NOUN,
        "delete",
        "Delete a topic with its records and cursors.",
        (PATH, _TOPIC),
        changes=True,
        asks="Delete the topic {topic} of {path} with all its records?",
    ),
    Command(
        _TOPIC_NOUN,
        "transfer",
        "Hand topics over to the stream of a neighbour, which owns them from then on (ours).",
        (
            PATH,
            _TOPICS,
            Param("to", "text", "cluster of the replica that is to own them, or its path", required=True),
            Param("force", "boolean", "also what the replica lacks, set aside or has no room for", default="false"),
            Param("oneway", "boolean", "also to a replica that has no link back", default="false"),
            Param("dryrun", "boolean", "only say what would be refused", default="false"),
        ),
        changes=True,
        asks="Hand the topics {topic} of {path} over to {to}? From then on they are written there only.",
        goes_on="the transfer goes on, if the cluster was asked already; `fairlead job list` shows it",
    ),
    Command(
        _TOPIC_NOUN,
        "takeover",
        "Own topics whose owner is lost: this copy is what goes on (ours).",
        (
            PATH,
            replace(_TOPICS, required=False),
            Param(
                "from",
                "text",
                "all topics that this cluster, the stream at this path, or kafka://NAME owns; with -topic those of "
                "them that it names or matches",
            ),
            Param(
                "force",
                "boolean",
                "also while the owner answers, or a neighbour has what cannot be brought",
                default="false",
            ),
            Param("dryrun", "boolean", "only say what would be brought, and refused", default="false"),
        ),
        changes=True,
        goes_on="the takeover goes on, if the cluster was asked already; `fairlead job list` shows it",
    ),
    Command(
        _TOPIC_NOUN,
        "claim",
        "Append what diverged and pending topics keep to the topics that it was meant for, each record once (ours).",
        (
            PATH,
            Param(
                "topic",
                "text",
                "a diverged topic, a regular expression, or names with line breaks between; @FILE reads them from a "
                "file",
                required=True,
            ),
            Param("into", "text", "another topic that is to have the records"),
            Param("dryrun", "boolean", "only say how many records would come", default="false"),
        ),
        changes=True,
        goes_on="the claim goes on, if the cluster was asked already; `fairlead job list` shows it",
    ),
    Command(
        _TOPIC_NOUN,
        "resolve",
        "End a conflict of a topic's name, or take a topic again that was deleted here (ours).",
        (
            PATH,
            Param("topic", "text", "its name, or where it waits the one that it cannot have", required=True),
            Param("rename", "text", "at the topic's owner: the name that it has from now on, wherever it is"),
            Param("as", "text", "where a topic waits for that name: the name that it gets here"),
            Param("take", "text", "source: again from its source; what has its name is deleted", only=("source",)),
        ),
        changes=True,
        asks="End the conflict of the topic {topic} of {path} so? With -take, what has this name here is deleted.",
    ),
)
