"""What a sink task says with a destination's gateway beside its frames, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from fairlead.model.strict_json import AS_ARRAY, Words
from fairlead.streamlog.frames.frame import FEATURES
from fairlead.streamlog.ranges import Name, ShardNumber, SliceMask
from fairlead.streamlog.values import GrantRun
from fairlead.wire.link_protocol import StreamPlace


@dataclass(frozen=True, slots=True)
class ApplyHello:
    """First message on /gateway/apply, for one shard of the source; frames may follow after Ok."""

    protocol: int
    link: bytes
    run: Annotated[GrantRun, AS_ARRAY]
    source: StreamPlace
    destination: bytes
    """Id of the destination stream."""
    shard: ShardNumber
    """Of the source."""
    features: tuple[str, ...] = FEATURES
    """What rows may need, as the source knows it; see `streamlog/frames/frame.py`."""
    ext: Mapping[str, Any] = field(default_factory=dict)
    """What a later version says that may be passed over."""
    topic_prefix: Name = ""
    """Stands before the names of topics that the link brings first."""


@dataclass(frozen=True, slots=True)
class Ok:
    """Go on; the gateway stops reading while more than this many bytes of frames wait to be applied."""

    window_bytes: int
    features: tuple[str, ...] = FEATURES
    """What rows may need, as the destination knows it."""
    ext: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Error:
    """No, and the connection is closed. `code` is the error's class in snake case."""

    code: str
    message: Words
    urls: tuple[str, ...] = ()
    """With `moved`: the gateways that take this now."""


@dataclass(frozen=True, slots=True)
class SlicesAt:
    """A recorded position of some slices, given as a mask: bit s for slice s."""

    slices: SliceMask
    commit: int


@dataclass(frozen=True, slots=True)
class Applied:
    """Cumulative: frames 1 to `through` of this connection are answered (applied, or refused by a Refused before)."""

    through: int
    slices: tuple[SlicesAt, ...]
    """Positions that changed since the last Applied."""
    records: int
    """Rows appended, duplicates dropped and partitions noted behind, since the connection began."""
    duplicates: int
    behind: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Frame `frame` (counted from 1) was refused, and so are later ones of its slices on this connection and run."""

    frame: int
    slices: SliceMask
    position: int
    """The lowest recorded position of these slices (0 if none)."""
    reason: str
    """`from` (a frame is missing before it) or `run` (a newer grant has been seen)."""
