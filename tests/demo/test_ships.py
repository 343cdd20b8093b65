"""The pure parts of the ships demo: AIS as records, and both ends compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from examples.ships.ais import MESSAGES, REAL_DATA, SHIPS, decode, generate, load, replay, topics
from examples.ships.compare import Handover, Held, busiest, compare, digest, percentile, started


def test_generated_messages_have_the_form_of_the_real_ones(tmp_path: Path) -> None:
    """As many ships and messages, positions and names, with receivers' lines between; the same at every call."""
    messages, what = load(tmp_path / "not-there.nmea")
    assert what == "generated AIS"
    assert (len(messages), len(topics(messages))) == (MESSAGES, SHIPS)
    assert {message.kind for message in messages} == {1, 3, 5}
    assert decode(generate(5, 40)) == decode(generate(5, 40))
    assert any(line.startswith(b"$PGHP") for line in generate(5, 40))


@pytest.mark.skipif(not REAL_DATA.exists(), reason="the recording is not here")
def test_every_real_message_is_decoded() -> None:
    """4,051 messages of 1,933 ships, some of them in two parts."""
    messages, _ = load()
    assert (len(messages), len(topics(messages))) == (MESSAGES, SHIPS)


def test_values_are_json_with_the_time_of_the_replay() -> None:
    """A ship's number, the type of the message and when it was heard, which is not part of the recording."""
    message = decode(generate(3, 3))[0]
    value = json.loads(message.value(1_790_000_000_123))
    assert (value["mmsi"], value["time"]) == (message.ship, 1_790_000_000_123)
    assert value["type"] == message.kind
    assert message.topic == f"ship-{message.ship}"


def test_the_recording_is_replayed_over_and_over() -> None:
    """A replay goes on where the one before stopped."""
    messages = decode(generate(3, 7))
    assert [*replay(messages, 5), *replay(messages, 9, 5)] == [*messages, *messages]


def held(*records: tuple[str, int, str]) -> Held:
    made = Held()
    for topic, offset, value in records:
        made.add((topic, 0, offset), digest(None, value.encode(), 0, []), len(value))
    return made


def test_a_copy_is_equal_only_at_the_same_offsets_with_the_same_content() -> None:
    """Missing, extra, changed and lost records are told apart; two empty sides are no success."""
    source = held(("a", 0, "x"), ("a", 1, "y"))
    assert compare(source, held(("a", 0, "x"), ("a", 1, "y")), {("a", 0, 0)}).equal
    shifted = compare(source, held(("a", 1, "x"), ("a", 2, "y")), set())
    assert (shifted.missing, shifted.extra, shifted.different, shifted.equal) == (1, 1, 1, False)
    assert not compare(source, source, {("a", 0, 9)}).equal
    assert not compare(Held(), Held(), set()).equal


def test_a_group_began_where_it_was_said_only_in_partitions_that_it_read() -> None:
    """What it did not read says nothing, and where nothing was said there is nothing to compare."""
    said = {("a", 0): 5, ("a", 1): 7, ("b", 0): 0}
    start = started(said, [("a", 0, 6), ("a", 0, 5), ("c", 0, 3)])
    assert (start.right, start.wrong, start.unread, start.as_said) == (1, 0, 2, True)
    start = started(said, [("a", 0, 5), ("a", 1, 8)])
    assert (start.right, start.wrong, start.unread, start.as_said) == (1, 1, 1, False)
    assert not started(said, []).as_said
    assert not started({}, [("a", 0, 5)]).as_said


def test_content_is_key_value_time_and_headers() -> None:
    """Each of them counts, and null is not empty."""
    variants = [
        digest(None, b"v", 1, []),
        digest(b"", b"v", 1, []),
        digest(b"v", None, 1, []),
        digest(None, b"v", 2, []),
        digest(None, b"v", 1, [("h", None)]),
        digest(None, b"v", 1, [("h", b"")]),
        digest(None, b"v", 1, [("", b"h")]),
    ]
    assert len(set(variants)) == len(variants)


def test_a_handover_is_seamless_only_if_nothing_is_read_twice_or_left_out() -> None:
    """Both sites must have read something."""
    a, b, c = (("t", 0, offset) for offset in range(3))
    everything = frozenset({a, b, c})
    assert Handover((a, b), (c,), everything).seamless
    assert not Handover((a, b), (b, c), everything).seamless
    assert not Handover((a,), (c,), everything).seamless
    assert not Handover((a, b, c), (), everything).seamless


def test_percentiles_and_busiest_topics() -> None:
    """The usual numbers."""
    values = [float(n) for n in range(100)]
    assert [percentile(values, part) for part in (0, 0.5, 0.99, 1)] == [0, 50, 99, 99]
    assert busiest(held(("a", 0, ""), ("b", 0, ""), ("b", 1, ""), ("c", 0, "")), 2) == ["b", "a"]
