"""What a fetch session tells its broker."""

from __future__ import annotations

from fairlead.kafka.fetching.fetch_session import FetchSession
from fairlead.protocol.client_fetch import Asked


def test_what_is_dropped_and_wanted_again_is_not_forgotten() -> None:
    """A broker that is told both forgets it last."""
    session, key, asked = FetchSession(), ("t", 0), Asked(0, 1, 2, 3, 4)
    session.want(key, asked)
    assert session.question() == ((0, 0), {"t": [asked]}, {})
    session.answered(7)
    session.drop(key)
    session.want(key, asked)
    assert session.question() == ((7, 1), {"t": [asked]}, {})
    session.drop(key)
    assert session.question() == ((7, 1), {}, {"t": [0]})
