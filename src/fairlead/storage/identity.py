"""`cluster.json`: which cluster a storage belongs to, and in which version it is laid out.

One JSON object with a checksum over everything before it. It is written once, and any other bytes than those that its
values give are damage: a digit of the id that changed would make the storage another cluster's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairlead.model.errors import BadRequest, Damaged
from fairlead.model.limits import FORMAT_VERSION
from fairlead.model.strict_json import Id, JsonForm, OtherVersion, Unreadable
from fairlead.storage import names
from fairlead.storage.sealed_json import sealed


@dataclass(frozen=True, slots=True)
class Identity:
    """What `cluster.json` says."""

    name: str
    id: Id


_FORM: Final = JsonForm(Identity, head={"version": FORMAT_VERSION})


def encode(identity: Identity) -> bytes:
    """The object's bytes."""
    return sealed(_FORM.write(identity))


def decode(data: bytes) -> Identity:
    """What the object says.

    Raises:
        BadRequest: it is of another version; what else it says is not judged.
        Damaged: it is not what was written.
    """
    try:
        found = _FORM.read(data)
    except OtherVersion as error:
        raise BadRequest(
            f"the data directory has format version {error.version}; this program knows version {FORMAT_VERSION}. "
            "Open it with the program that wrote it, or start with a new directory"
        ) from error
    except Unreadable as error:
        raise Damaged(names.CLUSTER, f"not the description of a cluster ({error})") from error
    if data != encode(found):
        raise Damaged(names.CLUSTER, "not the description of a cluster (the checksum does not fit)")
    return found


def of_another(found: Identity, held: bytes) -> Damaged:
    """The description says another id than the cluster's own log holds."""
    return Damaged(names.CLUSTER, f"says that this is {found.id.hex()}, and {names.META}/ is of {held.hex()}")
