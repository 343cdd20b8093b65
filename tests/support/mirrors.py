"""`fairlead mirror` as a process of its own, with its property files, and records for it."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.support.records import ends
from tests.support.waiting import WAIT_SECONDS, wait_until

Pairs = Iterable[tuple[bytes | None, bytes | None]]


def properties(file: Path, bootstrap: str, **more: str) -> Path:
    """A property file, with `_` for `.` in names."""
    values = {"bootstrap.servers": bootstrap, **{name.replace("_", "."): value for name, value in more.items()}}
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return file


ENGINE = "--engine"
_MIRRORED = re.compile(r"^[1-9][\d,]* records, ", re.MULTILINE)
_BEHIND = re.compile(r"/s, ([\d,]+|nothing) behind")


class MirrorProcess:
    """A mirror that runs; what it writes lies in `folder`. It carries by itself, unless an engine is named."""

    def __init__(self, folder: Path, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.out = folder / "mirror.out"
        self.log = folder / "mirror.log"
        for file in (self.out, self.log):
            if file.exists():
                file.replace(file.with_suffix(f"{file.suffix}.{len(list(folder.glob(f'{file.name}*')))}"))
        engine = [] if ENGINE in arguments else [ENGINE, "local"]
        with self.out.open("w") as out, self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fairlead.cli.main", "mirror", *engine, *arguments],
                stdout=out,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
            )

    def said(self) -> str:
        """All that it has said."""
        return self.log.read_text() + self.out.read_text()

    @property
    def mirrored(self) -> int:
        """So many records, as it says of itself once it has ended in order."""
        (line,) = (line for line in self.said().splitlines() if line.startswith("in all "))
        return int(line.split()[2].replace(",", ""))

    @property
    def behind(self) -> int | None:
        """So many records were not mirrored yet when it said so last; None: it has not said so yet."""
        said = _BEHIND.findall(self.log.read_text())
        return int(said[-1].replace(",", "").replace("nothing", "0")) if said else None

    @property
    def at_work(self) -> bool:
        """Whether it has said that it has mirrored something, or that nothing is left to do."""
        said = self.log.read_text()
        return bool(_MIRRORED.search(said)) or self.behind == 0

    def wait(self) -> int:
        """Its exit code, once it has ended by itself."""
        return self.process.wait(WAIT_SECONDS)

    def stop(self) -> int:
        """End it in order; its exit code."""
        self.process.terminate()
        return self.wait()

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()
        self.wait()


@contextmanager
def mirroring(folder: Path, *arguments: str) -> Iterator[MirrorProcess]:
    """A mirror that has begun, until the block ends."""
    mirror = MirrorProcess(folder, arguments)
    try:
        wait_until(
            lambda: "partitions match" in mirror.said() or mirror.process.poll() is not None, "the mirror begins"
        )
        yield mirror
    finally:
        mirror.process.kill()
        mirror.wait()


def make_topic(bootstrap: str, name: str, partitions: int = 1, *, replicas: int = 1, **configs: str) -> str:
    """A topic with these settings (`_` for `.`)."""
    wanted = NewTopic(
        name,
        num_partitions=partitions,
        replication_factor=replicas,
        config={key.replace("_", "."): value for key, value in configs.items()},
    )
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([wanted])[name].result(WAIT_SECONDS)
    return name


def grow_topic(bootstrap: str, name: str, partitions: int) -> None:
    """Let it have so many partitions, and wait until clients are told so."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(name, partitions)])[name].result(WAIT_SECONDS)
    wait_until(
        lambda: len(admin.list_topics(name, timeout=WAIT_SECONDS).topics[name].partitions) == partitions,
        f"{name} has {partitions} partitions",
    )


def count(bootstrap: str, topic: str) -> int:
    """Where the partitions of a topic end, in sum; 0 while it is not there. A cluster that is away is waited for."""
    return sum(ends(bootstrap, topic))


def produce(bootstrap: str, topic: str, pairs: Pairs, partition: int | None = None, **settings: Any) -> None:
    """Write records and wait until all are acknowledged; `settings` with `_` for `.`."""
    chosen = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **chosen})
    where: dict[str, Any] = {} if partition is None else {"partition": partition}
    for key, value in pairs:
        producer.produce(topic, value, key, **where)
        producer.poll(0)
    assert producer.flush(WAIT_SECONDS) == 0


def _put(producer: Producer, topic: str, value: bytes, partition: int) -> None:
    """Once there is room in the producer: a source may take its time."""
    while True:
        try:
            producer.produce(topic, value, partition=partition)
        except BufferError:
            producer.poll(1)
        else:
            return


@contextmanager
def load(bootstrap: str, topic: str, partitions: int) -> Iterator[list[int]]:
    """Records with running numbers to each partition until the block ends; how many there are then."""
    ended = threading.Event()
    written = [0] * partitions

    def write() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True})
        while not ended.is_set():
            for partition in range(partitions):
                for _ in range(20):
                    _put(producer, topic, b"%d" % written[partition], partition)
                    written[partition] += 1
            producer.poll(0.02)
        assert producer.flush(WAIT_SECONDS) == 0

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield written
    finally:
        ended.set()
        thread.join()
