"""Where Kafka's partitions end: for a reader of committed records, and beyond that, while a transaction is open.

A reader of committed records gets nothing behind the first record of an open transaction, though what others have
written there is acknowledged. So a partition of which all has come that such a reader gets may lack records still.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.gateway.from_kafka.granting import Wanted
from fairlead.gateway.from_kafka.known import Known
from fairlead.kafka import LATEST, TopicPartition
from fairlead.kafka import Cluster as Kafka
from fairlead.model.errors import FairleadError


async def note_ends(kafka: Kafka, known: Known, wanted: Sequence[Wanted], seconds: float) -> None:
    """Note where these partitions end. Those of which that is not heard now end where they did, as far as anybody
    knows; leaders that move are waited for so many seconds."""
    places = {TopicPartition(each.topic, each.partition): (each.topic_id, each.partition) for each in wanted}
    # Asked first: what is above the committed end that is told after it is not just newer.
    all_told = await kafka.told_offsets(places, LATEST, committed=False, seconds=seconds)
    heard = [place for place, each in all_told.items() if not isinstance(each, FairleadError)]
    told = all_told | await kafka.told_offsets(heard, LATEST, committed=True, seconds=seconds)
    known.silent, ends, known.held_back = {}, {}, {}
    for place, at in places.items():
        whole, committed = all_told[place], told[place]
        if isinstance(whole, FairleadError) or isinstance(committed, FairleadError):
            known.silent[at] = str(committed)
            if at in known.ends:
                ends[at] = known.ends[at]
        else:
            ends[at] = committed.offset
            if whole.offset > committed.offset:
                known.held_back[at] = whole.offset - committed.offset
    known.ends = ends
