"""Commands of `stream upstream`: what a replica accepts."""

from __future__ import annotations

from dataclasses import replace

from fairlead.client.catalog.params import PEER
from fairlead.client.command import Command, Param

_OF_REPLICA = Param("path", "stream", "path of the replica stream", required=True)
_UPSTREAM = Param("upstream", "source", "path of the source: /mapr/<cluster>/ships", required=True, called=False)
_ANY_UPSTREAM = replace(_UPSTREAM, what="path of the source: /mapr/<cluster>/ships, or kafka://NAME")
_ORIGINS = Param(
    "origins", "text", "ids of streams whose topics a partner may bring too, with commas between (ours)", default="none"
)
_OWNERSHIP = Param(
    "ownership",
    "boolean",
    "the source may give our topics another owner (ours)",
    default="true for own, false for partner",
)
_MULTIMASTER = Param(
    "multimaster",
    "boolean",
    "the replica feeds the source too, and each makes and writes topics of its own (ours)",
    default="false",
)

_UPSTREAM_NOUN = ("stream", "upstream")
COMMANDS = (
    Command(
        _UPSTREAM_NOUN,
        "add",
        "Let a replica accept a source.",
        (_OF_REPLICA, _UPSTREAM, PEER, _ORIGINS, _OWNERSHIP, _MULTIMASTER),
        changes=True,
    ),
    Command(
        _UPSTREAM_NOUN,
        "edit",
        "Change what a source may bring to a replica (ours).",
        (
            _OF_REPLICA,
            _UPSTREAM,
            *(replace(param, default="as it is") for param in (PEER, _ORIGINS, _OWNERSHIP, _MULTIMASTER)),
        ),
        changes=True,
    ),
    Command(
        _UPSTREAM_NOUN,
        "list",
        "List the sources that a replica accepts, and copies into it that are under way.",
        (_OF_REPLICA,),
        columns=("upstream", "peer", "origins", "ownership", "multimaster", "copy"),
    ),
    Command(
        _UPSTREAM_NOUN,
        "remove",
        "Let a replica accept a source no more, nor its copies.",
        (_OF_REPLICA, _ANY_UPSTREAM),
        changes=True,
        asks="Remove the upstream {upstream} of {path}?",
    ),
)
