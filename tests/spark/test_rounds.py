"""Which rows a task gives to Spark, and which of them bring filler."""

from __future__ import annotations

from itertools import islice

from fairlead.model.clock import SystemClock
from fairlead.spark.handover import Handover
from fairlead.spark.packets import COPIED_BYTES_MAX, Packet, from_batch
from fairlead.spark.rounds import until_over
from tests.replication.fakes import link_frame


async def handover_of(*frames: Packet) -> Handover[Packet]:
    """All of them wait, and no more come."""
    handover: Handover[Packet] = Handover(10 * COPIED_BYTES_MAX)
    for frame in frames:
        await handover.put(frame, frame.size_bytes)
    handover.close()
    return handover


async def test_filler_goes_with_the_last_row_before_a_wait_and_with_no_other() -> None:
    """What waits behind a row pushes it just as well."""
    large = link_frame(bytes(COPIED_BYTES_MAX), "http://one")
    handover = await handover_of(large, link_frame(b"a", "http://one"), link_frame(b"b", "http://two"))
    batches = list(until_over(handover, None, warm_up_rows=0, clock=SystemClock()))
    assert [len(batch) for batch in batches] == [1, 1, 2]
    assert [len(from_batch(batch)) for batch in batches] == [1, 1, 1]


async def test_frames_of_one_destination_share_a_row_in_their_order() -> None:
    """Those that were ready together."""
    handover = await handover_of(*(link_frame(bytes([n]), "http://one") for n in range(5)))
    (batch,) = until_over(handover, None, warm_up_rows=0, clock=SystemClock())
    assert [bytes(memoryview(frame.data)) for frame in from_batch(batch)] == [bytes([n]) for n in range(5)]


async def test_a_cold_jvm_is_given_filler_beside_frames() -> None:
    """So many rows and no more, and every frame once."""
    handover: Handover[Packet] = Handover(COPIED_BYTES_MAX)
    await handover.put(link_frame(b"a", "http://one"), 1)
    batches = until_over(handover, None, warm_up_rows=3, clock=SystemClock())
    assert [len(from_batch(batch)) for batch in islice(batches, 4)] == [1, 0, 0, 0]
    handover.close()
    assert list(batches) == []


async def test_a_round_that_is_over_gives_nothing_more() -> None:
    """What waits is granted anew in the next one."""
    handover = await handover_of(link_frame(b"a", "http://one"))
    assert list(until_over(handover, 0, warm_up_rows=0, clock=SystemClock())) == []
