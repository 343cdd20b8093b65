"""Claim of a writer epoch, `epoch/<e>`: JSON with a checksum, read strictly.

That the object is there is what fences older writers. What it says is compared with the manifest by `fsck`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairlead.model.errors import Damaged
from fairlead.model.strict_json import Id, JsonForm, Natural, OtherVersion
from fairlead.storage import names
from fairlead.storage.sealed_json import check_seal, sealed

CLAIM_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class Claim:
    """One writer epoch of a log."""

    prefix: str
    epoch: Natural
    id: Id
    """Random, so that two epochs of one number are told apart: one of them is of a copy of the directory."""
    log: Id
    """Id of the stream; of `meta/` that of the cluster."""
    node: Natural
    """Number of the server that claims the log."""
    run: Id
    """Random id of the server's start."""
    moves: Natural
    """How often the log went from one server to another."""
    at: int
    """When, milliseconds since 1970 by the server's clock."""

    @property
    def name(self) -> str:
        """Name of the object."""
        return names.epoch(self.prefix, self.epoch)


_CLAIM: Final = JsonForm(Claim, head={"v": CLAIM_VERSION})


def encode(claim: Claim) -> bytes:
    """The object's bytes."""
    return sealed(_CLAIM.write(claim))


def decode(data: bytes, name: str) -> Claim:
    """The claim in an object.

    Raises:
        Damaged: the object is no claim, has another version, or is the claim of another name.
    """
    try:
        claim = _CLAIM.read(data)
        check_seal(data)
    except OtherVersion as error:
        why = f"claim of version {error.version}; this program reads version {CLAIM_VERSION}"
        raise Damaged(name, why) from error
    except ValueError as error:
        raise Damaged(name, f"not a claim that can be read ({error})") from error
    if data != encode(claim) or name != claim.name:
        raise Damaged(name, f"is the claim {claim.name}, or not in its exact form")
    return claim
