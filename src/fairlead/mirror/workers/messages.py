"""What the coordinator and the two processes of a worker say to each other, over connections that show its secret.

    reader  ⇄  coordinator     /reader      READER_SAYS, READER_HEARS
    sink    ⇄  coordinator     /sink        SINK_SAYS, SINK_HEARS

A partition in a worker's hands has a `number`, which is never used again: what is said of an older one is void.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from fairlead.mirror.books.book import Position
from fairlead.mirror.carrying.engine import Load
from fairlead.model.conversation import kinds_of, prepare_forms
from fairlead.model.strict_json import AS_ARRAY, Words

READER_PATH: Final = "/reader"
SINK_PATH: Final = "/sink"

# ---------------------------------------------------------------- both


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message: which worker, and which attempt at its task, of which both processes say the same; a later
    attempt has a higher number."""

    worker: int
    attempt: int
    pid: int


@dataclass(frozen=True, slots=True)
class Opening:
    """How a cluster is opened: a property file as it was read, with its secrets."""

    label: str
    file: str | None
    """Path of the file, where there is one: who we are is read again from it for each connection."""
    properties: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Setup:
    """The answer to `Hello`."""

    sources: tuple[Opening, ...]
    destination: Opening
    destination_id: str
    """Id of the cluster."""
    connections: int
    """To each broker of the destination."""
    queue_records: int
    handler: str | None
    """`module:function`."""
    handler_args: str | None
    transactions: str | None
    """Name of the mirror, if the sinks send in transactions and write the positions."""


@dataclass(frozen=True, slots=True)
class Down:
    """What this process waits for, if anything of that source is away (None: the destination)."""

    source: int | None
    why: Words | None


@dataclass(frozen=True, slots=True)
class Bye:
    """The last message of a process that ends in order."""


# ---------------------------------------------------------------- coordinator → reader


@dataclass(frozen=True, slots=True)
class Take:
    """Carry that partition of that source."""

    number: int
    source: int
    load: Load


@dataclass(frozen=True, slots=True)
class Remove:
    """Carry it no more."""

    number: int


@dataclass(frozen=True, slots=True)
class Reached:
    """A place in a source's log: everything below is acknowledged."""

    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Credit:
    """How far partitions are, by number."""

    reached: Mapping[int, Annotated[Reached, AS_ARRAY]]


@dataclass(frozen=True, slots=True)
class End:
    """Read no more, in order."""


# ---------------------------------------------------------------- sink ⇄ coordinator


@dataclass(frozen=True, slots=True)
class PartProgress:
    """How far one partition is."""

    number: int
    position: Position
    end: int
    records_under_way: int
    bytes_under_way: int
    stopped: Words | None
    """Why it does not go on."""
    refused: bool
    """Whether that is since the destination refused something of it for good."""
    closed: bool
    """Whether nothing more of it is fetched."""
    kept: tuple[tuple[int, int, int, int], ...] = ()
    """Stretches of source and destination that belong together, since this was said last (`Segment`)."""
    recorded: int | None = None
    """The offset of its position in the books, -1 if it has none; None: the coordinator writes it."""
    back: bool = False
    """Whether it is to be given again from `position`: a transaction has failed, the books say otherwise, or batches
    are to be smaller."""


@dataclass(frozen=True, slots=True)
class TopicCounts:
    """What was acknowledged of a topic since this was said last."""

    records: int
    bytes: int
    batches: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Progress:
    """What has moved since this was said last."""

    parts: tuple[PartProgress, ...]
    topics: Mapping[str, TopicCounts]
    aborted_records: int
    looped_records: int


@dataclass(frozen=True, slots=True)
class Worry:
    """A partition cannot be fetched from `offset`, where it stands with nothing under way."""

    number: int
    offset: int
    trouble: str
    detail: Words
    diverged_at: int


@dataclass(frozen=True, slots=True)
class Enter:
    """Nothing goes out under that producer id before the registry says where its records come from."""

    producer_id: int
    origin: str


@dataclass(frozen=True, slots=True)
class Entered:
    """The registry says it."""

    producer_id: int


@dataclass(frozen=True, slots=True)
class Look:
    """How far are partitions of that source whose records the key deals? Asked under a number."""

    number: int
    source: int


@dataclass(frozen=True, slots=True)
class Dealt:
    """Of one of them."""

    number: int
    """Of the partition."""
    frontier: int
    """Nothing at or behind this offset was sent yet."""
    ends: Mapping[int, int]
    """Where partitions of the destination end at least."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The answer, of all of them that this worker has; under number 0 its last word, once it sends no more."""

    number: int
    parts: tuple[Dealt, ...]


@dataclass(frozen=True, slots=True)
class Confirm:
    """Transactions were fenced: may this worker go on? Asked under a number."""

    number: int


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The answer."""

    number: int
    fenced: Words | None
    """Another process runs the mirror."""


@dataclass(frozen=True, slots=True)
class Failed:
    """What has gone wrong, and how many transactions have failed with that; they are mirrored again."""

    why: Words
    transactions: int


@dataclass(frozen=True, slots=True)
class Broken:
    """The worker cannot go on, and no other can."""

    why: Words


@dataclass(frozen=True, slots=True)
class Pause:
    """Hand on nothing of that source until it is told to go on."""

    source: int
    paused: bool


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Send no more, and end: the worker's other process is gone."""


READER_SAYS: Final = kinds_of({"hello": Hello, "down": Down, "bye": Bye})
READER_HEARS: Final = kinds_of({"setup": Setup, "take": Take, "remove": Remove, "credit": Credit, "end": End})
SINK_SAYS: Final = kinds_of(
    {
        "hello": Hello,
        "progress": Progress,
        "worry": Worry,
        "enter": Enter,
        "looked": Looked,
        "confirm": Confirm,
        "failed": Failed,
        "broken": Broken,
        "down": Down,
        "bye": Bye,
    }
)
SINK_HEARS: Final = kinds_of(
    {"setup": Setup, "look": Look, "entered": Entered, "confirmed": Confirmed, "pause": Pause, "withdraw": Withdraw}
)


def prepare() -> None:
    """Load what reading and writing them needs, for a process whose forks are to share it."""
    for kinds in (READER_SAYS, READER_HEARS, SINK_SAYS, SINK_HEARS):
        prepare_forms(kinds.values())
