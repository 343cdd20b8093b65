"""A log that was rolled back gives no offsets and no topic another version until it is recovered."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tests.streamlog.ownership.sites import A, B, answer_of, fresh, handing_over, topic_of, writing, wrote
from tests.streamlog.world import made, rows_of

from fairlead.model.errors import NotAllowed
from fairlead.streamlog.requests.deletion import delete_records
from fairlead.streamlog.requests.rollback import forget_rolled_back, note_rolled_back
from fairlead.streamlog.requests.topics import rename_topic, set_configs, set_partitions
from fairlead.streamlog.writing.draft import DraftRequest
from fairlead.streamlog.writing.writer import ShardLog


def requests(site: ShardLog) -> list[DraftRequest[Any]]:
    """What would give an offset, or a version of the topic, that the log may have given before."""
    return [
        writing((b"x",)),
        partial(delete_records, number=topic_of(site).number, partition=0, offset=1),
        partial(set_configs, name="ships", changes={"retention.ms": "1000"}),
        partial(set_partitions, name="ships", partitions=2),
        partial(rename_topic, name="ships", to="boats"),
        handing_over(site, B),
    ]


@pytest.mark.parametrize("which", range(6))
def test_a_log_that_was_rolled_back_gives_out_nothing_until_that_is_over(which: int) -> None:
    """Handing a topic over would begin its next epoch where the backup ends, below what its replicas have."""
    site = fresh(A)
    made(site)
    wrote(site, b"0", b"1")
    answer_of(site, partial(note_rolled_back, path="/mapr/a/s", replica="/mapr/b/s"))
    before = rows_of(site)
    with pytest.raises(NotAllowed, match=r"was rolled back: /mapr/b/s has .*recover -path /mapr/a/s"):
        answer_of(site, requests(site)[which])
    assert rows_of(site) == before
    answer_of(site, forget_rolled_back)
    answer_of(site, requests(site)[which])
    assert len(rows_of(site)) > len(before)
