"""What the values of the stream log say of themselves."""

from __future__ import annotations

import pytest

from fairlead.model.errors import UnknownPartition, UnknownTopic
from fairlead.streamlog.values import PartitionState, Topic, topic_with

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
