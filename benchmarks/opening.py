"""What it takes to open a log whose commits lie in packs: `python -m benchmarks.opening`.

Processor time of opening the directory and the log after so many small commits that were never merged, each in a pack.
Ends with 1 when four times as many take more than `TIMES` as long. Nothing is synced while the directory is filled.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.protocol.batch import build_batch, check_produced
from fairlead.storage.local import LocalStorage
from fairlead.storage.packs import PackSettings
from fairlead.streamlog.requests.produce import produce
from fairlead.streamlog.requests.topics import create_topic
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.writer import ShardLog

COMMITS = (25_000, 100_000)
TIMES = 5
STREAM = b"a" * 16


def main() -> int:
    """Measure and print; the exit code."""
    os.fdatasync = os.fsync = _not_synced
    seconds = []
    for commits in COMMITS:
        with tempfile.TemporaryDirectory() as folder:
            _fill(Path(folder), commits)
            began = time.process_time()
            storage = _opened(Path(folder))
            directory = time.process_time() - began
            assert _log(storage).announced.end == commits
            seconds.append(time.process_time() - began)
            print(
                f"{commits:>7,} commits: {seconds[-1]:5.1f} s of processor time, the directory {directory:.2f} s of it"
            )
    print(f"{seconds[1] / seconds[0]:.2f} times")
    return int(seconds[1] > TIMES * seconds[0])


def _not_synced(fd: object) -> None:
    pass


def _opened(folder: Path) -> LocalStorage:
    return LocalStorage(folder, packs=PackSettings(files_first=0, aside=_at_once))


def _at_once(work: Callable[[], None]) -> None:
    work()


def _log(storage: LocalStorage) -> ShardLog:
    return ShardLog.open(storage, "x", stream_id=STREAM, clock=SystemClock(), randomness=SystemRandomness())


def _fill(folder: Path, commits: int) -> None:
    storage = _opened(folder)
    log = _log(storage)
    batch = check_produced(build_batch([(None, b"x" * 100)]))
    topic = _committed(log, partial(create_topic, name="vessels"))
    assert isinstance(topic, Topic)
    for _ in range(commits - 1):
        _committed(log, lambda draft: produce(draft, topic.number, 0, batch))
    storage.close()


def _committed(log: ShardLog, request: Callable[..., object]) -> object:
    sealed = log.seal([request])
    log.write(sealed)
    log.announce(sealed)
    return sealed.answers[0].result()


if __name__ == "__main__":
    raise SystemExit(main())
