"""The URLs of one cluster: which is tried, which next, and what is said where none will do."""

from __future__ import annotations

import pytest

from fairlead.wire.urls import Attempts, UrlsInTurn, beginning_with

URLS = ("http://one", "http://two", "http://three")


class Still:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 0

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms


def call(attempts: Attempts, **hosts: Exception | str) -> str | None:
    """What a caller does: the answer of the first host that takes the call."""
    for url in attempts.urls:
        with attempts.at(url):
            outcome = hosts[url.removeprefix("http://")]
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
    return None


def test_a_call_goes_to_the_next_url_for_the_failures_that_allow_it() -> None:
    """Each is kept with its reason, or its class where it gives none."""
    attempts = Attempts(URLS, ConnectionError)
    assert call(attempts, one=ConnectionError("refused"), two=ConnectionResetError(), three="hello") == "hello"
    assert str(attempts) == "http://one (refused), http://two (ConnectionResetError)"


def test_a_failure_that_may_have_done_something_ends_the_call() -> None:
    """Nothing is asked twice that may have been heard."""
    attempts = Attempts(URLS, ConnectionRefusedError)
    with pytest.raises(TimeoutError):
        call(attempts, one=ConnectionRefusedError("no"), two=TimeoutError("silence"), three="hello")
    assert str(attempts) == "http://one (no)"


def test_the_last_failure_is_at_hand_where_no_url_will_do() -> None:
    """A caller with one kind of error raises it as it is; without URLs there is none."""
    attempts, last = Attempts(URLS[:2], OSError), OSError("b")
    assert call(attempts, one=OSError("a"), two=last) is None
    assert attempts.error is last
    assert (call(Attempts((), OSError)), str(Attempts((), OSError)), Attempts((), OSError).error) == (None, "", None)


def test_another_url_is_first_at_each_turn_and_a_dead_one_last_for_a_while() -> None:
    """It is still tried if no other answers, and has its turn again later, or as soon as it has answered."""
    clock = Still()
    turns = UrlsInTurn(clock, skip_dead_s=10)
    assert turns.next(()) == ()
    turns = UrlsInTurn(clock, skip_dead_s=10)
    assert turns.next(URLS) == URLS
    assert turns.next(URLS)[0] == "http://two"
    turns.failed("http://three")
    assert turns.next(URLS) == ("http://one", "http://two", "http://three")
    clock.now_ms = 10_000
    for _ in range(2):
        turns.next(URLS)
    assert turns.next(URLS)[0] == "http://three"
    turns.failed("http://one")
    turns.answered("http://one")
    assert turns.next(URLS)[0] == "http://one"


def test_no_url_is_left_out_of_a_turn() -> None:
    """Whatever its number."""
    assert [beginning_with(turn, URLS)[0] for turn in range(4)] == [*URLS, URLS[0]]
    assert all(sorted(beginning_with(turn, URLS)) == sorted(URLS) for turn in range(4))
    assert beginning_with(7, ()) == ()
