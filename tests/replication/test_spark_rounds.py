"""A round of a task: what its reader hands on is offered to its sink."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from fairlead.replication.spark import rounds
from fairlead.replication.spark.options import LinkOptions
from fairlead.spark.handover import Handover
from fairlead.spark.packets import Packet
from tests.replication.fakes import link_frame

FRAMES = [link_frame(bytes([size % 251]) * size, "http://one") for size in (4_000_000, 10, 300_000, 4_000_000)]


class Reader:
    """Hands on all frames, and ends."""

    def __init__(self, _url: str, _worker: str, _settings: object, handover: Handover[Packet], **_: Any) -> None:
        self._handover = handover

    async def run(self) -> None:
        for frame in FRAMES:
            await self._handover.put(frame, frame.size_bytes)
        self._handover.close()


class Sink:
    """Keeps what it is offered."""

    offered: list[Packet]

    def __init__(self, *_: object, **__: object) -> None:
        Sink.offered = []

    def offer(self, *packets: Packet) -> None:
        self.offered.extend(packets)

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def finish(self, _grace_seconds: float) -> None: ...


def test_large_frames_reach_the_sink_whole_and_spark_with_small_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """All in their order, also the last one, which no row follows; the reader ends once they are taken."""
    monkeypatch.setattr(rounds, "ReaderTask", Reader)
    monkeypatch.setattr(rounds, "SinkTask", Sink)
    options = LinkOptions("http://nowhere")
    sizes: list[int] = []

    def through_spark() -> Iterator[pa.RecordBatch]:
        for batch in rounds.read(options):
            sizes.append(batch.nbytes)
            yield batch

    taken = rounds.write(options, through_spark())
    assert [(each.address, bytes(each.data)) for each in Sink.offered] == [(each.address, each.data) for each in FRAMES]
    assert taken == (len(FRAMES), sum(each.size_bytes for each in FRAMES))
    assert max(sizes) < 10_000
