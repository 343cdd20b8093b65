"""The life of one link as a state machine: what it is doing, what can happen to it, and what it does then.

                       ┌────────────────────── RESTED ─────────────────────┐
                       ▼     BEGUN                    FAILED, REFUSED,     │
                      DUE ───────────► ASKING ────────────────────────► RESTING ◄── FAILED, UNDELIVERED
                       │ ◄── LOOK ───── │               UNDELIVERED        │        in every READY state
                       │                └──────────────┐                   │
              ANSWERED │                      ANSWERED │          ANSWERED │
                       ▼     BEGUN                     │                   ▼
       ┌─ LOOK ──► READY_DUE ───► READY_ASKING         │             READY_RESTING ◄── REFUSED
       │             ▲   ◄── LOOK ── │                 │                   │           in every READY state
       │             │               │ ANSWERED        │                   │
     READY ◄─────────┼───────────────┴─────────────────┘                   │
                     └───────────────────── RESTED ────────────────────────┘

     PAUSED ◄── PAUSE        ASIDE ◄── STAND_ASIDE        DUE ◄── GO           from everywhere
     STOPPED ◄── STOP        from everywhere but PAUSED, ASIDE and DUE

     delivers: no ◄── REFUSED, UNDELIVERED        yes ◄── DELIVERED           beside all that

What is not drawn changes nothing.

The destination is asked in ASKING and READY_ASKING, and may still be in any other state: then something has happened
since it was asked. So nothing that happens meanwhile is lost: LOOK and GO lead to a DUE state, where the link's loop
(`contact_loop.py`) asks again as soon as it has its answer, whatever that says. Also one that would stop the link does
not in DUE, where a person may have said something since.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class State(Enum):
    """What a link is doing. In a READY state the destination's last answer stands: slices are granted, or wait for a
    reader."""

    PAUSED = auto()
    """Waits until a person resumes it."""
    ASIDE = auto()
    """Waits for the end of a copy to the same replica, which moves the same positions."""
    STOPPED = auto()
    """Waits for a person: the destination or the source is not what it was, or there is a bug."""
    DUE = auto()
    """Asks the destination next."""
    ASKING = auto()
    """The destination is asked, and nothing has happened since."""
    RESTING = auto()
    """It failed; asks again after a back-off."""
    READY = auto()
    """Waits for something to happen."""
    READY_DUE = auto()
    """As DUE."""
    READY_ASKING = auto()
    """As ASKING."""
    READY_RESTING = auto()
    """A frame was refused, so nothing is granted until the destination is asked after a back-off."""

    @property
    def ready(self) -> bool:
        """The destination's last answer stands."""
        return self in _READY

    @property
    def still(self) -> bool:
        """It waits for a person or a copy, and no answer counts."""
        return self in _STILL

    @property
    def due(self) -> bool:
        """The destination is to be asked."""
        return self is State.DUE or self is State.READY_DUE

    @property
    def resting(self) -> bool:
        """A back-off is waited out."""
        return self is State.RESTING or self is State.READY_RESTING

    @property
    def grantable(self) -> bool:
        """A reader that has room may be given its slices at once; in the other READY states it is looked at first."""
        return self is State.READY or self is State.READY_ASKING

    @property
    def held_up(self) -> bool:
        """Nothing is granted, and nobody has chosen that: the destination has not answered yet or has refused, or a
        person must mend something."""
        return self in _HELD_UP


_READY = {State.READY, State.READY_DUE, State.READY_ASKING, State.READY_RESTING}
_HELD_UP = {State.STOPPED, State.DUE, State.ASKING, State.RESTING, State.READY_RESTING}
_STILL = {State.PAUSED, State.ASIDE, State.STOPPED}


class Event(Enum):
    """What can happen to a link."""

    PAUSE = auto()
    """A person pauses it."""
    STAND_ASIDE = auto()
    """A copy to the same replica begins."""
    GO = auto()
    """A person resumes or changes it, or that copy has ended: felt at once."""
    LOOK = auto()
    """The destination should be asked: a grant was lost, a repair may be due, a copy may be done."""
    BEGUN = auto()
    """Its loop has begun to ask."""
    ANSWERED = auto()
    """The destination has answered, and it and the source are what they were."""
    FAILED = auto()
    """The destination does not answer, or says no; that may pass."""
    STOP = auto()
    """Only a person can mend it."""
    REFUSED = auto()
    """A frame did not follow the recorded position."""
    UNDELIVERED = auto()
    """A sink could not deliver."""
    DELIVERED = auto()
    """Frames arrive."""
    RESTED = auto()
    """The back-off is over."""


_ANYWHERE = {Event.PAUSE: State.PAUSED, Event.STAND_ASIDE: State.ASIDE, Event.GO: State.DUE}
_TABLE: dict[State, dict[Event, State]] = {
    State.PAUSED: {},
    State.ASIDE: {},
    State.STOPPED: {},
    State.DUE: {
        Event.BEGUN: State.ASKING,
        Event.ANSWERED: State.READY_DUE,
    },
    State.ASKING: {
        Event.ANSWERED: State.READY,
        Event.LOOK: State.DUE,
        Event.FAILED: State.RESTING,
        Event.REFUSED: State.RESTING,
        Event.UNDELIVERED: State.RESTING,
        Event.STOP: State.STOPPED,
    },
    State.RESTING: {
        Event.RESTED: State.DUE,
        Event.ANSWERED: State.READY_RESTING,
        Event.STOP: State.STOPPED,
    },
    State.READY: {
        Event.LOOK: State.READY_DUE,
        Event.FAILED: State.RESTING,
        Event.REFUSED: State.READY_RESTING,
        Event.UNDELIVERED: State.RESTING,
        Event.STOP: State.STOPPED,
    },
    State.READY_DUE: {
        Event.BEGUN: State.READY_ASKING,
        Event.FAILED: State.RESTING,
        Event.REFUSED: State.READY_RESTING,
        Event.UNDELIVERED: State.RESTING,
        Event.STOP: State.STOPPED,
    },
    State.READY_ASKING: {
        Event.ANSWERED: State.READY,
        Event.LOOK: State.READY_DUE,
        Event.FAILED: State.RESTING,
        Event.REFUSED: State.READY_RESTING,
        Event.UNDELIVERED: State.RESTING,
        Event.STOP: State.STOPPED,
    },
    State.READY_RESTING: {
        Event.RESTED: State.READY_DUE,
        Event.FAILED: State.RESTING,
        Event.UNDELIVERED: State.RESTING,
        Event.STOP: State.STOPPED,
    },
}
_DELIVERS = {Event.DELIVERED: True, Event.REFUSED: False, Event.UNDELIVERED: False}


@dataclass(frozen=True, slots=True)
class Life:
    """Where a link stands."""

    state: State = State.DUE
    delivers: bool = True
    """False: nothing was delivered since a sink failed or a frame was refused. An answer alone proves little then."""

    def after(self, event: Event) -> Life:
        """Where it stands when this has happened."""
        state = _ANYWHERE.get(event) or _TABLE[self.state].get(event, self.state)
        delivers = _DELIVERS.get(event, self.delivers)
        return self if (state, delivers) == (self.state, self.delivers) else Life(state, delivers)

    def shortens_waits(self, event: Event) -> bool:
        """It works, or somebody changed something: the next back-off is the shortest again."""
        return event is Event.GO or event is Event.DELIVERED or (event is Event.ANSWERED and self.delivers)
