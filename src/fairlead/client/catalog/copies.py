"""Commands of `copystream`."""

from __future__ import annotations

from fairlead.client.catalog.params import FALSE, PEER
from fairlead.client.command import Command, Param

_COPY = (
    Param("src", "stream", "path of the stream to copy", required=True),
    Param(
        "dst",
        "stream",
        "path of the copy; the command line makes it, with the source's settings, if it is not there",
        required=True,
    ),
)
_INTO = Param("path", "stream", "path of the stream that is copied into", required=True)
_FROM = Param(
    "from", "stream", "path of the stream that may be copied: /mapr/<cluster>/ships", required=True, called=False
)
COMMANDS = (
    Command(
        ("copystream",),
        "start",
        "Copy a stream as it is now, keeping offsets and owners.",
        (
            *_COPY,
            Param("mapreduce", "boolean", "only false: Spark copies", default="false", only=FALSE),
            Param("numthreads", "number", "accepted, without effect", default="16"),
        ),
        changes=True,
        goes_on="the copy to {dst} goes on, if the cluster was asked already; the same command waits for its end",
    ),
    Command(("copystream",), "status", "Show how far a copy is (ours).", _COPY),
    Command(("copystream",), "allow", "Let a stream be copied into, once (ours).", (_INTO, _FROM, PEER), changes=True),
    Command(
        ("copystream",),
        "list",
        "List the copies that a stream allows and that have not begun (ours).",
        (_INTO,),
        columns=("from", "peer", "allowedat"),
    ),
    Command(("copystream",), "remove", "Allow a copy no more (ours).", (_INTO, _FROM), changes=True),
)
