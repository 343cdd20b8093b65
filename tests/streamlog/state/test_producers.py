"""What is remembered of producers, beside a plain dictionary; and how often all of them are looked at."""

from __future__ import annotations

from unittest.mock import Mock, patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.streamlog.world import FakeClock, fresh

from fairlead.streamlog.state import producers
from fairlead.streamlog.state.producers import ProducerBatch, ProducerKey, Producers, ProducerState

DAY_MS = 86_400_000
PARTITIONS = st.tuples(st.sampled_from([1, 2]), st.integers(0, 1))
KEYS = st.builds(lambda partition, id: (*partition, id), PARTITIONS, st.sampled_from([-3, 0, 5]))
ACTIONS = st.one_of(
    st.tuples(st.just("put"), KEYS, st.integers(0, 9)),
    st.tuples(st.just("remove"), KEYS, st.just(0)),
    st.tuples(st.just("forget"), PARTITIONS, st.just(0)),
    st.tuples(st.just("look"), PARTITIONS, st.integers(0, 9)),
    st.tuples(st.just("expire"), st.just(()), st.integers(0, 9)),
)


def state_of(at: int) -> ProducerState:
    """Appended at that offset and time."""
    return ProducerState(0, at, (ProducerBatch(0, 0, at),))


@settings(deadline=None)
@given(st.lists(ACTIONS, max_size=30), st.sampled_from([0, 2, 100]))
def test_a_partition_has_the_producers_that_it_would_have_in_a_dictionary(
    actions: list[tuple[str, tuple[int, ...], int]], recent: int
) -> None:
    """However many are packed, sorted and newer."""
    found, model = Producers(), dict[tuple[int, ...], int]()
    with patch.object(producers, "RECENT", recent), patch.object(producers, "EXPIRED_AT_ONCE", 2):
        for what, key, number in actions:
            if what == "put":
                found.put(key, state_of(number))  # type: ignore[arg-type]
                model[key] = number
            elif what == "remove":
                found.remove(key)  # type: ignore[arg-type]
                model.pop(key, None)
            elif what == "forget":
                found.forget(*key)
                model = {each: at for each, at in model.items() if each[:2] != key}
            elif what == "expire":
                assert sum(found.expiring(number)) == sum(at < number for at in model.values())
                model = {each: at for each, at in model.items() if at >= number}
            else:
                wanted = [each[2] for each, at in model.items() if each[:2] == key and at >= number]
                assert sorted(found.from_offset(key[0], key[1], number)) == sorted(wanted)
    assert {key: state.last_at_ms for key, state in found.items()} == model


def test_producers_are_sorted_once_though_they_go_on_producing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A takeover cuts in one commit after the other, and each asks; sorting a million takes half a second."""
    sort = Mock(wraps=producers._Sorted.of)  # noqa: SLF001 - how often it is done
    monkeypatch.setattr(producers._Sorted, "of", sort)  # noqa: SLF001
    known = Producers()
    for each in range(100):
        known.put((each, 0, 7), state_of(1))
    for each in range(100):
        assert known.from_offset(each, 0, 0) == [7]
        known.put((each, 0, 7), state_of(2))
        known.put((each, 0, 8), state_of(1))
        assert known.from_offset(each, 0, 2) == [7]
        assert sorted(known.from_offset(each, 0, 1)) == [7, 8]
        known.forget(each, 0)
        assert known.from_offset(each, 0, 0) == []
    assert sort.call_count == 1


def test_who_produces_while_others_are_forgotten_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes turns with requests."""
    monkeypatch.setattr(producers, "EXPIRED_AT_ONCE", 1)
    known = Producers()
    keys: list[ProducerKey] = [(1, 0, each) for each in range(4)]
    for key in keys:
        known.put(key, state_of(1))
    steps = known.expiring(5)
    assert next(steps) == 1
    known.put(keys[2], state_of(7))
    assert list(steps) == [1, 0, 1]
    assert [key for key, _ in known.items()] == [keys[2]]


def test_producers_are_looked_at_once_time_has_moved_by_a_hundredth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at each sweep, of which there is one between any two merges."""
    clock = FakeClock()
    log = fresh(clock=clock)
    look = Mock(wraps=log.announced.state.producers.expiring)
    monkeypatch.setattr(log.announced.state.producers, "expiring", look)
    log.upkeep.set_retention(0, 100 * DAY_MS)

    def sweeps_after(ms: int) -> int:
        clock.pass_ms(ms)
        assert list(log.upkeep.expire_producers()) == []
        return look.call_count

    assert [sweeps_after(ms) for ms in (0, 30_000, 30_000, DAY_MS, 60_000)] == [1, 1, 1, 2, 2]
