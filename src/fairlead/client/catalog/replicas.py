"""Commands of `stream replica`: links, at the source."""

from __future__ import annotations

from dataclasses import replace

from fairlead.client.catalog.params import CHOSEN, FALSE
from fairlead.client.command import Command, Param

_REPLICA = Param("replica", "stream", "path of the replica: /mapr/<cluster>/ships", required=True)
_OF_SOURCE = Param("path", "source", "path of the source stream", required=True)
_SOURCE = replace(_OF_SOURCE, what="path of the source stream, or kafka://NAME of a Kafka cluster")

_NOT_BUILT_LINK = (
    Param("throttle", "boolean", "not built yet", default="false", only=FALSE),
    Param("networkencryption", "boolean", "not built yet", default="false", only=FALSE),
    Param("synchronous", "boolean", "not built yet", default="false", only=FALSE),
    Param("networkcompression", "text", "not built yet", default="off", only=("off",)),
)
_LINK = (
    Param("forward", "text", "all: also what the stream received; own: only its own records (ours)", default="all"),
    Param(
        "acceptwrites", "boolean", "take what the replica passes on of produces to our topics (ours)", default="false"
    ),
    *CHOSEN,
    Param(
        "cursors",
        "text",
        "cursors of which groups go too: all, none, or groups whose whole names a regular expression matches (ours)",
        default="all",
    ),
    Param(
        "prefix",
        "text",
        "stands before the names of topics that come to the replica first by this link (ours)",
        default="none",
    ),
)
"""Options of a link, which may be given when it is made and changed while it runs."""
_FROM = Param(
    "from", "text", "beginning: all that is there comes; now: only what is written later (ours)", default="beginning"
)
_OF_KAFKA = (
    Param("consumerconfig", "text", "of kafka://NAME: a consumer's settings, a file on the replica's server (ours)"),
    Param(
        "deletes",
        "text",
        "of kafka://NAME: keep or follow topics and records that are deleted in Kafka (ours)",
        default="keep",
    ),
)
"""Options of a Kafka cluster whose topics a replica keeps."""
_LINK_PEER = (
    Param("peer", "text", "own: the replica is one of your own; partner: another company's (ours)", default="own"),
    Param(
        "ownership",
        "boolean",
        "the replica may say that our topics have another owner (ours)",
        default="true for own, false for partner",
    ),
)

_REPLICA_NOUN = ("stream", "replica")
COMMANDS = (
    Command(
        _REPLICA_NOUN,
        "add",
        "Name a replica of a stream (the replica must name its upstream too).",
        (
            _OF_SOURCE,
            _REPLICA,
            Param("paused", "boolean", "do not start yet", default="false"),
            _FROM,
            *_LINK_PEER,
            *_LINK,
            *_NOT_BUILT_LINK,
        ),
        changes=True,
    ),
    Command(
        _REPLICA_NOUN,
        "autosetup",
        "Make a replica, name it on both sides, copy what is there and start.",
        (
            _SOURCE,
            _REPLICA,
            Param("multimaster", "boolean", "also the other way: each feeds the other", default="false"),
            Param(
                "directcopy",
                "boolean",
                "the link copies what is there; false: `copystream` does, and the link begins after it",
                default="true",
            ),
            Param("useexistingreplica", "boolean", "the replica may be there already", default="false"),
            Param("paused", "boolean", "do not start yet (ours)", default="false"),
            _FROM,
            *_LINK,
            *_OF_KAFKA,
            *_NOT_BUILT_LINK,
        ),
        changes=True,
        goes_on="the cluster goes on, if it was asked already: it makes {replica} and copies what is there; "
        "`fairlead stream replica list -path {path}` shows how far it is, the same command with --wait waits for it, "
        "`fairlead stream replica remove -path {path} -replica {replica}` ends it and leaves what was copied",
    ),
    Command(
        _REPLICA_NOUN,
        "list",
        "List the replicas of a stream and how far they are.",
        (_SOURCE, Param("refreshnow", "boolean", "accepted; numbers are always fresh", default="false")),
    ),
    Command(
        _REPLICA_NOUN,
        "edit",
        "Change a replica's settings.",
        (
            _SOURCE,
            _REPLICA,
            Param("newreplica", "stream", "where the replica is now: its path, and the addresses of its cluster"),
            *(replace(param, default="as it is") for param in (*_LINK_PEER, *_LINK, *_OF_KAFKA, *_NOT_BUILT_LINK)),
        ),
        changes=True,
    ),
    Command(_REPLICA_NOUN, "pause", "Stop sending to a replica, for now.", (_SOURCE, _REPLICA), changes=True),
    Command(
        _REPLICA_NOUN,
        "resume",
        "Go on sending to a replica.",
        (_SOURCE, _REPLICA, Param("rescan", "boolean", "read the whole log again (ours)", default="false")),
        changes=True,
    ),
    Command(
        _REPLICA_NOUN,
        "remove",
        "End replication to a replica; it keeps what it has.",
        (_SOURCE, _REPLICA),
        changes=True,
        asks="Remove the replica {replica} of {path}?",
    ),
)
