"""The errors of Fairlead, with one kind for each thing that a caller can do next.

    FairleadError
    ├─ PartlyRefused   a job has ended, and its answer, which was shown, names what was refused
    ├─ TryAgain        the same call may work later
    │  ├─ StorageUnavailable   the disk or object store did not answer as it should
    │  ├─ StorageFull          the reserve of free space is reached; control rows still go through
    │  ├─ Unreachable          another cluster's gateway or server does not answer
    │  ├─ Moved(urls)          other gateways of the cluster take this now
    │  ├─ Busy                 a limit on concurrent work is reached
    │  └─ OwnerPending(topic, partition)  what was written before the owner changed is still to come
    ├─ BadRequest      the call must change
    │  ├─ InvalidName · InvalidValue · NotImplementedYet
    │  ├─ NotFound             UnknownCluster · UnknownStream · UnknownTopic · UnknownPartition · UnknownGroup
    │  ├─ AlreadyExists        a stream, topic, replica or upstream of that name is there
    │  ├─ NotAllowed           NotOwner(owner) · NotAgreed (one side of the two-way agreement is missing)
    │  ├─ OffsetOutOfRange(start, end)
    │  ├─ CorruptBatch         InvalidBatch (as it was sent) · OverlargeRecords (once decompressed)
    │  ├─ BatchTooLarge
    │  └─ OutOfOrderSequence · StaleProducerEpoch
    ├─ Unanswered      another cluster has the call and its answer was lost: done or not, so repeat what may be repeated
    ├─ Fenced          someone newer owns this; stop
    ├─ Aborted         a transaction takes no effect; begin again behind the last one that was committed
    ├─ Damaged         stored bytes are not what was written; no more writes in this shard, by name
    │  └─ Missing              the object is not there; a reader asks again, since its rows may lie in another object
    └─ Closed          this process is stopping

The values in brackets are attributes of the class. `broker/errors.py` maps the kinds to Kafka's codes,
`model/envelope.py` to HTTP status and the REST envelope; nothing else maps them. Every message is one line, names the
thing and says what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar


class FairleadError(Exception):
    """Root of all errors that a user can meet."""


class PartlyRefused(FairleadError):
    """A job has ended, and some topics were refused. The answer has been printed and names them."""


E = TypeVar("E", bound=FairleadError)


def another(error: E) -> E:
    """A copy of the error for one more caller. An error that is kept, or raised again and again, would keep alive the
    stack frames that it passed through, with the requests in them."""
    twin = type(error).__new__(type(error), *error.args)
    vars(twin).update(vars(error))
    return twin


class TryAgain(FairleadError):
    """The same call may succeed later; it is known to have done nothing."""


class StorageUnavailable(TryAgain):
    """Storage failed or did not answer; the shard that met it stops or retries the same bytes."""


class StorageFull(TryAgain):
    """Free space is below the reserve: batches are refused, control rows and deletions still go through."""

    def __init__(self, where: str, free_bytes: int, reserve_bytes: int) -> None:
        super().__init__(
            f"{where}: {free_bytes:,} bytes are free and {reserve_bytes:,} are kept in reserve; "
            "delete topics, lower the time-to-live or add space"
        )
        self.free_bytes = free_bytes
        self.reserve_bytes = reserve_bytes


class Unreachable(TryAgain):
    """Another cluster does not answer."""


class Moved(TryAgain):
    """Other gateways of the cluster take this now."""

    def __init__(self, message: str, urls: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.urls = tuple(urls)


class Busy(TryAgain):
    """A limit on concurrent work is reached."""


class OwnerPending(TryAgain):
    """This stream owns the topic and may not write the partition yet: it lacks records of the owner before it."""

    def __init__(self, topic: str, partition: int, end: int, start: int) -> None:
        super().__init__(
            f"topic {topic}, partition {partition}: this copy ends at {end}, the owner before it wrote up to {start}; "
            "wait until the rest has come, or take the topic over"
        )
        self.topic = topic
        self.partition = partition


class BadRequest(FairleadError):
    """The call must change before it can succeed."""


class InvalidName(BadRequest):
    """A path, topic or cluster name breaks its rule."""


class InvalidValue(BadRequest):
    """An option or setting has a value outside its range."""


class NotImplementedYet(BadRequest):
    """An option of the original, or an API, that is planned but not built; refused, never ignored."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: not implemented yet")
        self.what = what


class SwitchedOff(BadRequest):
    """What was asked for is not in use there, such as access rules where nobody looks at them."""


class NotFound(BadRequest):
    """The thing that was named does not exist."""


class UnknownCluster(NotFound):
    """No cluster of that name in the address book."""


class UnknownStream(NotFound):
    """No stream at that path."""


class UnknownTopic(NotFound):
    """No topic of that name, number or id."""


class UnknownPartition(NotFound):
    """The topic exists and has fewer partitions."""


class UnknownGroup(NotFound):
    """No consumer group or cursor of that name."""


class AlreadyExists(BadRequest):
    """Something of that name is there already."""


class NotAllowed(BadRequest):
    """The caller may not do this here."""


class NotOwner(NotAllowed):
    """Another stream gives the offsets of this topic."""

    def __init__(self, topic: str, owner: str, way: str = "") -> None:
        """`way`: how the owner's cluster is reached, as far as that is known."""
        super().__init__(
            f"topic {topic} is owned by {owner}; this copy is read-only, write and change it there"
            + (f": {way}" if way else "")
        )
        self.topic = topic
        self.owner = owner


class NotAgreed(NotAllowed):
    """One side of the two-way agreement of a link is missing."""


class OffsetOutOfRange(BadRequest):
    """The offset lies outside [start, end]."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is outside [{start}, {end}]")
        self.offset = offset
        self.start = start
        self.end = end


class CorruptBatch(BadRequest):
    """A record batch does not hold together: header, count or CRC."""


class InvalidBatch(CorruptBatch):
    """A record batch came as it was sent, and no log takes such a one: to send it again does not help."""


class OverlargeRecords(CorruptBatch):
    """A record batch decompresses to more than whoever opens it has room for."""


class BatchTooLarge(BadRequest):
    """A record batch is larger than the message size limit."""


class NotTried(BadRequest):
    """Something before it was refused for good, and it was to come behind that or not at all."""


class OutOfOrderSequence(BadRequest):
    """An idempotent producer's sequence does not follow its last one."""


class StaleProducerEpoch(BadRequest):
    """An idempotent producer uses an epoch below the newest one seen."""


class Unanswered(FairleadError):
    """Another cluster was given the call and its answer was lost; nobody knows whether it was done."""


class Fenced(FairleadError):
    """A newer writer owns the shard; this one must stop."""


class Aborted(FairleadError):
    """A transaction of a Kafka cluster has ended without effect, or is to be ended so."""


class Damaged(FairleadError):
    """Stored bytes are missing or are not what was written."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}; run `fairlead fsck --data DIR` and restore the object from a copy")
        self.name = name
        self.why = why


class Missing(Damaged):
    """A named object is not there: lost, or deleted after a merge that the reader has not heard of."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "the object is missing")


class Closed(FairleadError):
    """The log or server is stopping."""
