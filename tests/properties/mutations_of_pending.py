"""Rules of what is put aside while an owner cannot be reached, each with a seed that notices that it is off."""

from __future__ import annotations

from tests.properties.switching import Mutation

_KNOWN = "broker.forwarding.known:KnownProducers."
_PENDING = "streamlog.requests.pending:"
OF_PENDING = [
    Mutation(
        "pending-unanswered",
        "a batch whose answer was lost is not put aside",
        _KNOWN + "_may_enter",
        "if known.to_owner or known.unanswered is not None:",
        "if known.to_owner:",
        7,
    ),
    Mutation(
        "pending-under-way",
        "nor one of a producer that has others on their way to the owner",
        _KNOWN + "_may_enter",
        "if known.to_owner or known.unanswered is not None:",
        "if known.unanswered is not None:",
        6,
    ),
    Mutation(
        "pending-unknown",
        "nor one of a producer that a run before may have served",
        _KNOWN + "_may_enter",
        "if not known.is_known or (",
        "if (",
        48,
    ),
    Mutation(
        "pending-five",
        "a producer is known once five of its batches were answered",
        _KNOWN + "_answered",
        "known.answered >= BATCHES_KEPT",
        "known.answered >= 1",
        48,
    ),
    Mutation(
        "pending-forgotten",
        "a producer of which something was forgotten is not new",
        _KNOWN + "_forget_oldest",
        "self._given.pop(key[2], None)",
        "pass",
        51,
    ),
    Mutation(
        "pending-in-order",
        "what is put aside first comes after all that has its answer",
        _KNOWN + "_may_enter",
        "(known.epoch, known.next) != (header.producer_epoch, header.base_sequence)",
        "False",
        166,
    ),
    Mutation(
        "pending-closed",
        "a producer goes back to the owner once that is durable",
        _KNOWN + "way",
        "return Way.CLOSE if cut_off is False else Way.GOES_ON",
        "return Way.TO_OWNER if cut_off is False else Way.GOES_ON",
        0,
    ),
    Mutation(
        "pending-going-aside",
        "a batch that is being put aside does not go to the owner",
        _KNOWN + "way",
        "return Way.WAIT if cut_off is False else Way.GOES_ON",
        "return Way.TO_OWNER",
        5,
    ),
    Mutation(
        "pending-there",
        "nor does one that was put aside",
        _KNOWN + "way",
        "if standing is Standing.DUPLICATE:",
        "if False:",
        0,
    ),
    Mutation(
        "pending-follows",
        "the owner is told that sequences were put aside",
        _KNOWN + "way",
        "return Way.FOLLOWS if standing is Standing.FOLLOWS else Way.TO_OWNER",
        "return Way.TO_OWNER",
        0,
    ),
    Mutation(
        "pending-opened",
        "a producer goes on where it was put aside only since the partition was opened",
        _PENDING + "_goes_on",
        "opened is not None and known.batches[-1].base_offset >= opened",
        "opened is not None",
        4,
    ),
    Mutation(
        "pending-left",
        "once it is closed, nobody goes on there",
        _PENDING + "close",
        "draft.add_control(Kind.STATE, StatePayload(_key(partition), None), number=number)",
        "pass",
        0,
    ),
    Mutation(
        "pending-next",
        "a batch is put aside behind those before it",
        _PENDING + "put_aside",
        "found is Standing.AHEAD or (header.producer_id >= 0 and found is not Standing.NEXT and not enters)",
        "found is Standing.AHEAD",
        162,
    ),
    Mutation(
        "pending-twice",
        "a batch that is there is not put aside again",
        _PENDING + "put_aside",
        "if found is Standing.DUPLICATE:",
        "if False:",
        5,
    ),
]
