"""What one batch costs in the stream log, and what a million idle topics take: `python benchmarks/streamlog.py`.

CPU time of one core, storage in memory, commits of 500 batches of 200-byte records over 1,000 topics. Prints
microseconds per batch for sealing, encoding with put, announcing, fetching from memory; memory of 1,000,000 topics.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.names import slice_of
from fairlead.protocol.batch import HEADER_BYTES, build_batch, check_produced, read_header, with_crc
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.objects import checkpoint
from fairlead.streamlog.requests.produce import produce
from fairlead.streamlog.requests.topics import create_topic
from fairlead.streamlog.state import snapshot
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.writer import ShardLog

TOPICS = 1000
BATCHES = 20_000
IDLE_TOPICS = 1_000_000
STREAM = b"a" * 16


def main() -> None:
    """Run all of it."""
    log = ShardLog.open(MemoryStorage(), "x", stream_id=STREAM, clock=SystemClock(), randomness=SystemRandomness())
    names = [f"vessel-{i}" for i in range(TOPICS)]
    sealed = log.seal([partial(create_topic, name=name) for name in names])
    log.write(sealed)
    log.announce(sealed)
    numbers = [answer.result().number for answer in sealed.answers]
    value = [(None, b"x" * 200)]
    plain = build_batch(value)
    idempotent = build_batch(value, producer_id=7, producer_epoch=0, base_sequence=0)
    produce_all(log, numbers, "plain", lambda i: plain)
    produce_all(log, numbers, "idempotent", lambda i: _numbered(idempotent, i // TOPICS))
    fetch_all(log, numbers)
    million_topics()


def _numbered(batch: bytes, sequence: int) -> bytes:
    return with_crc(read_header(batch)._replace(base_sequence=sequence), batch[HEADER_BYTES:])[1]


def produce_all(log: ShardLog, numbers: list[int], name: str, batch_of: Callable[[int], bytes]) -> None:
    """Seal, write and announce, each timed."""
    spent = {"seal": 0.0, "write": 0.0, "announce": 0.0}
    done = 0
    while done < BATCHES:
        # made for each commit, since the collector looks at all that wait
        requests: list[Any] = [_request(numbers[i % TOPICS], batch_of(i)) for i in range(done, done + 500)]
        at = [time.process_time()]
        sealed = log.seal(requests)
        at.append(time.process_time())
        log.write(sealed)
        at.append(time.process_time())
        log.announce(sealed)
        at.append(time.process_time())
        for step, (before, after) in zip(spent, itertools.pairwise(at), strict=True):
            spent[step] += after - before
        done += len(sealed.answers)
    print(f"{name:12}", *(f"{step} {seconds / BATCHES * 1e6:5.1f} us" for step, seconds in spent.items()), sep="  ")


def _request(number: int, data: bytes) -> Any:
    batch = check_produced(data)
    return lambda draft: produce(draft, number, 0, batch)


def fetch_all(log: ShardLog, numbers: list[int]) -> None:
    """One batch from memory each."""
    before = time.process_time()
    for i in range(BATCHES):
        log.reader.fetch_cached(numbers[i % TOPICS], 0, 20, 1000)
    print(f"{'fetch':12}", f"{(time.process_time() - before) / BATCHES * 1e6:5.1f} us", sep="  ")


def million_topics() -> None:
    """Memory and checkpoint of idle topics."""
    state = ShardState(STREAM)
    before = _resident_mb()
    counters = [0] * 16
    for i in range(IDLE_TOPICS):
        name = f"vessel-{i:09d}-positions"
        slice = slice_of(name)
        state.put_topic(Topic(counters[slice] * 16 + slice, name, os.urandom(16), 1, STREAM))
        counters[slice] += 1
    print(f"{IDLE_TOPICS:,} idle topics: {_resident_mb() - before:.0f} MB")
    started = time.process_time()
    data = b"".join(bytes(memoryview(part)) for part in checkpoint.write(*snapshot.dump(state)))
    written = time.process_time()
    snapshot.load(STREAM, *checkpoint.read(data))
    loaded = time.process_time()
    print(f"checkpoint of {len(data) / 1e6:.0f} MB: dump {written - started:.1f} s, load {loaded - written:.1f} s")


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
