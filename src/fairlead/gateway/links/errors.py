"""Errors of links beyond those of `model/errors.py`, and how `replica list` shows an error.

Over the wire an error is its class in snake case (`model/envelope.py`): `not_agreed`, `stream_changed` …
"""

from __future__ import annotations

from fairlead.model.envelope import code_of
from fairlead.model.errors import FairleadError, NotAgreed, NotAllowed, Unreachable


class StreamChanged(NotAllowed):
    """A stream of this path has another id than the one that the link is bound to: it was deleted and made again."""


class RolledBack(NotAllowed):
    """The source's log no longer holds commits that the replica has applied: it was restored from a copy."""


class ReplicatorDown(FairleadError):
    """No replicator carries the links of this cluster."""


class LinkStalled(FairleadError):
    """Records wait for a link, and nothing arrives."""


STOPS = (StreamChanged, RolledBack)
"""Errors after which a link waits for a person; every other passes by itself and is tried again."""

_SHOWN: dict[type[FairleadError], str] = {
    Unreachable: "ErrAllGatewaysUnreachable",
    NotAgreed: "ErrUpstreamNotDefined",
    StreamChanged: "ErrReplicaStreamChanged",
    RolledBack: "ErrSourceRolledBack",
    ReplicatorDown: "ErrReplicatorDown",
    LinkStalled: "ErrLinkStalled",
}


def shown_code(error: FairleadError) -> str:
    """The error's code in the original's form, as in `ErrAllGatewaysUnreachable`."""
    return _SHOWN.get(type(error)) or "Err" + "".join(part.capitalize() for part in code_of(error).split("_"))
