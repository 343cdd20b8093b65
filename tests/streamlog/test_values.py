"""What the values of the stream log say of themselves."""

from __future__ import annotations

import pytest

from fairlead.model.errors import UnknownPartition, UnknownTopic
from fairlead.streamlog.values import EpochRange, PartitionState, Topic, epoch_before, epoch_of, topic_with

HISTORY = PartitionState(5, 100, 4, ((1, 5), (2, 30), (4, 70)))


@pytest.mark.parametrize(
    ("state", "current", "asked", "found"),
    [
        (HISTORY, 4, 4, (4, 100)),
        (HISTORY, 4, 3, (2, 70)),
        (HISTORY, 4, 2, (2, 70)),
        (HISTORY, 4, 1, (1, 30)),
        (HISTORY, 4, 0, (0, 5)),
        (HISTORY, 4, 5, (-1, -1)),
        (HISTORY, 4, -1, (-1, -1)),
        (HISTORY, 6, 4, (4, 100)),
        (HISTORY, 6, 6, (6, 100)),
        (HISTORY, 6, 5, (4, 100)),
        (PartitionState(0, 0, -1, ()), 0, 0, (0, 0)),
        (PartitionState(0, 0, -1, ()), 0, 1, (-1, -1)),
    ],
)
def test_the_end_of_an_epoch_is_where_the_next_one_began(
    state: PartitionState, current: int, asked: int, found: tuple[int, int]
) -> None:
    """As Kafka's epoch cache: the floor of what is asked for, undefined above the newest."""
    assert state.end_of_epoch(current, asked) == found


def test_a_topic_says_which_partition_it_has_not() -> None:
    """The one text for it, whoever asks; partitions count from 0."""
    topic = Topic(3, "ships", b"i" * 16, 2, b"o" * 16)
    assert topic_with(topic, 3, 1) is topic
    for partition in (-1, 2):
        with pytest.raises(UnknownPartition, match=rf"^topic ships has no partition {partition}$"):
            topic_with(topic, 3, partition)
    with pytest.raises(UnknownTopic, match=r"^topic 3 does not exist any more$"):
        topic_with(None, 3, 0)


def test_a_position_names_the_writer_epoch_of_the_last_commit_before_it() -> None:
    """By it a source finds out that it was rolled back; an epoch may have no commit."""
    first, empty, last = (bytes([n]) * 16 for n in range(3))
    epochs = (EpochRange(1, first, 0, 5), EpochRange(2, empty, 5, 5), EpochRange(3, last, 5, None))
    assert [epoch_before(epochs, commit).id for commit in (0, 5, 6)] == [first, first, last]


def test_a_commit_lies_in_the_epoch_that_wrote_it() -> None:
    """None for one that was never written."""
    epochs = (EpochRange(1, b"1" * 16, 2, 5), EpochRange(2, b"2" * 16, 5, 5), EpochRange(3, b"3" * 16, 5, None))
    assert [epoch_of(epochs, commit) for commit in (1, 2, 4, 5, 99)] == [
        None,
        epochs[0],
        epochs[0],
        epochs[2],
        epochs[2],
    ]
