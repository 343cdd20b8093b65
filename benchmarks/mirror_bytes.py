"""What the mirror's work on batches costs: `python -m benchmarks.mirror_bytes`; alone on a machine, about a minute.

Processor time of the quickest of some rounds, by batch and by GB of records before they are compressed. The records
have keys, and text of random words, which lz4 compresses to three quarters.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Sequence

from fairlead.mirror.bytes.committed import committed
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.repartition import Repartitioner
from fairlead.mirror.bytes.rewriter import Rewriter
from fairlead.mirror.bytes.source import SourceBatch
from fairlead.protocol.batch import build_batch
from fairlead.protocol.records import CODECS, Record

ANSWER_BYTES = 4 << 20
ROUNDS = 9
LETTERS = b"abcdefghijklmnopqrstuvwxyz"


class Given:
    """An answer to a fetch of batches of `batch_bytes` of records, before they are compressed."""

    def __init__(self, codec: int, record_bytes: int, batch_bytes: int) -> None:
        self._name = f"{CODECS[codec]}, {record_bytes:,} B in {batch_bytes:,} B"
        chance = random.Random(1)
        words = [bytes(chance.choices(LETTERS, k=chance.randrange(2, 12))) for _ in range(2_000)]
        each = batch_bytes // record_bytes
        parts, offset = [], 0
        while offset * record_bytes < ANSWER_BYTES:
            records = []
            for i in range(offset, offset + each):
                text = b" ".join(chance.choices(words, k=record_bytes // 4))[: record_bytes - 20]
                records.append(Record(i, 10**12 + i, b"key-%05d" % chance.randrange(10**5), text))
            parts.append(build_batch(records, base_offset=offset, codec=codec))
            offset += each
        self.data = b"".join(parts)
        self._count = len(parts)
        self._plain = offset * record_bytes

    def batches(self) -> Sequence[SourceBatch]:
        """What passes the filter."""
        return batches(self.data)

    def show(self, what: str, work: Callable[[], object]) -> None:
        """Print the processor time of the quickest round."""
        gc.collect()
        seconds = min(_timed(work) for _ in range(ROUNDS))
        each, per_gb = seconds / self._count * 1e6, seconds / self._plain * 1e9
        print(f"{self._name + ': ' + what:60} {each:9.2f} us/batch {per_gb:7.2f} s/GB", flush=True)


def _timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def batches(data: bytes) -> Sequence[SourceBatch]:
    """What passes the filter."""
    return committed(data, (), 0, "").batches


def one_by_one(codec: int, record_bytes: int, batch_bytes: int) -> None:
    """Batches that go as they are."""
    given = Given(codec, record_bytes, batch_bytes)
    alone = Rewriter(Limits(small_bytes_max=0))
    given.show("filter", lambda: batches(given.data))
    given.show("filter, raw", lambda: alone.take(batches(given.data)))
    outgoing = alone.take(batches(given.data)).outgoing
    given.show("head of a producer", lambda: [one.of_producer(1, 0, 0) for one in outgoing])


def together(codec: int, record_bytes: int, batch_bytes: int) -> None:
    """Batches that are merged, where that is worth it, and dealt out by key."""
    given = Given(codec, record_bytes, batch_bytes)
    merging, dealing = Rewriter(Limits()), Repartitioner(8, Limits())
    how = merging.take(batches(given.data)).outgoing[0].how
    given.show(f"filter, {how}", lambda: merging.take(batches(given.data)))
    given.show("filter, repartition to 8", lambda: dealing.take(batches(given.data)))


def rebuilt(codec: int, record_bytes: int, batch_bytes: int) -> None:
    """Batches of which a record is left out."""
    given = Given(codec, record_bytes, batch_bytes)
    rebuilding = Rewriter(Limits())
    given.show("filter, rebuild", lambda: rebuilding.take([one._replace(low=one.low + 1) for one in given.batches()]))


def main() -> None:
    """Print a line for each."""
    for shape in ((0, 1_000, 15_000), (3, 1_000, 15_000), (0, 1_000, 1_000_000)):
        one_by_one(*shape)
    for codec in range(len(CODECS)):
        together(codec, 1_000, 16_000)
    for codec in (0, 3):
        together(codec, 100, 16_000)
        together(codec, 100, 1_000)
        rebuilt(codec, 100, 1_000_000)


if __name__ == "__main__":
    main()
