"""Commands of `stream`."""

from __future__ import annotations

from dataclasses import replace

from fairlead.client.catalog.params import FALSE, PATH
from fairlead.client.command import Command, Param

_SETTINGS = (
    Param("ttl", "number", "life of a record in seconds; 0 keeps it for ever", default="604800"),
    Param("autocreate", "boolean", "make a topic when a client first asks for it", default="true"),
    Param("defaultpartitions", "number", "partitions of a new topic", default="1"),
    Param("compression", "text", "off, lz4, lzf or zlib; stored and shown, without effect yet", default="off"),
    Param("produceperm", "text", "who may publish (other than the default: not built yet)", default="u:<creator>"),
    Param("consumeperm", "text", "who may read (other than the default: not built yet)", default="u:<creator>"),
    Param("topicperm", "text", "who may change topics (other than the default: not built yet)", default="u:<creator>"),
    Param("copyperm", "text", "who may copy (other than the default: not built yet)", default="u:<creator>"),
    Param(
        "adminperm", "text", "who may change the stream (other than the default: not built yet)", default="u:<creator>"
    ),
    Param("defaulttimestamptype", "text", "createtime or logappendtime", default="createtime"),
    Param("pidexpirysecs", "number", "an idle producer's state is kept so long", default="604800"),
    Param("forwardwrites", "boolean", "pass a produce on to the neighbour that owns the topic (ours)", default="false"),
    Param("pending", "boolean", "put it aside while that neighbour cannot be reached (ours)", default="false"),
    Param(
        "conflicts",
        "text",
        "of a topic whose name another one holds: setaside, or alias for <topic>.at.<cluster> (ours)",
        default="setaside",
    ),
    Param("mincompactionlag", "number", "for compaction (not built yet), ms", default="0", only=("0",)),
    Param("deleteretention", "number", "for compaction (not built yet), ms", default="86400000", only=("86400000",)),
    Param("compact", "boolean", "not built yet", default="false", only=FALSE),
)
_CHANGES = tuple(replace(param, default="as it is") for param in _SETTINGS)

_STREAM = ("stream",)
COMMANDS = (
    Command(
        _STREAM,
        "create",
        "Make a stream.",
        (
            PATH,
            *_SETTINGS,
            Param("copymetafrom", "stream", "take the settings of this stream, here or in another cluster"),
            Param("ischangelog", "boolean", "not built yet", default="false", only=FALSE),
            Param("shards", "number", "logs that the stream's topics are spread over (ours)", default="1"),
        ),
        changes=True,
    ),
    Command(
        _STREAM,
        "edit",
        "Change settings of a stream.",
        (
            PATH,
            *_CHANGES,
            Param("force", "boolean", "only with -compact", default="false", only=FALSE),
        ),
        changes=True,
    ),
    Command(_STREAM, "info", "Show a stream's settings and size.", (PATH,)),
    Command(
        _STREAM,
        "list",
        "List streams.",
        (Param("path", "stream", "only streams below this path (ours)"),),
        columns=("path", "numtopics", "defaultpartitions", "ttl", "autocreate", "numreplicas", "numupstreams"),
    ),
    Command(
        _STREAM,
        "delete",
        "Delete a stream with all its topics and records.",
        (PATH,),
        changes=True,
        asks="Delete the stream {path} with all its topics and records?",
    ),
    Command(
        _STREAM,
        "expose",
        "Show one stream as a Kafka cluster of its own, with plain topic names, on its own port (ours).",
        (
            PATH,
            Param("port", "number", "port of the listener; 0 takes a free one"),
            Param("remove", "boolean", "end the listener", default="false"),
        ),
        changes=True,
    ),
    Command(
        _STREAM,
        "recover",
        "Bring back what a stream that was restored from a backup lacks, and let it be written again (ours).",
        (
            PATH,
            Param("force", "boolean", "also without neighbours that are away; leave refused topics", default="false"),
            Param("dryrun", "boolean", "only show what would be cut and brought", default="false"),
        ),
        changes=True,
        goes_on="the recovery goes on, if the cluster was asked already; `fairlead job list` shows it",
    ),
)
NOT_BUILT = (
    Command(_STREAM, "purge", "Drop what has expired now (not built yet).", (PATH,), changes=True, built=False),
)
