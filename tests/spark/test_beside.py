"""Bytes that go from the reader of a task to its sink beside Spark."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from fairlead.model.clock import SystemClock
from fairlead.model.errors import Unreachable
from fairlead.spark.beside import Receiver, Sender
from fairlead.spark.handover import Handover
from fairlead.spark.packets import COPIED_BYTES_MAX, Packet, from_batch, to_batch
from fairlead.spark.rounds import until_over
from tests.support.waiting import WAIT_SECONDS, wait_until

LARGE: Final = 3_000_000
"""More than a socket takes before it is read."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short name, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="b-") as name:
        yield Path(name)


@pytest.fixture
def sender(folder: Path) -> Iterator[Sender]:
    sender = Sender(folder)
    yield sender
    sender.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def packet(data: bytes, *, referred: bool = False) -> Packet:
    return Packet("address", data, len(data), referred)


def through_spark(packet: Packet) -> Packet:
    """As the sink's process has it."""
    (found,) = from_batch(to_batch([packet], last=False))
    return found


def finish_soon(sender: Sender) -> None:
    """Long before the time that it has."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(sender.finish, WAIT_SECONDS).result(WAIT_SECONDS / 2)


def test_a_large_packet_is_whole_again_and_its_row_is_small(sender: Sender, receiver: Receiver) -> None:
    """Each with its own bytes, in the order of the rows, those that went with their rows between them."""
    sent = [packet(bytes([n]) * size) for n, size in enumerate((LARGE, 5, COPIED_BYTES_MAX, LARGE, 0))]
    carried = [through_spark(sender.beside(each)) for each in sent]
    assert max(memoryview(each.data).nbytes for each in carried) < 500
    found = [receiver.whole(each) for each in carried]
    assert [bytes(each.data) for each in found] == [each.data for each in sent]
    assert {(each.size_bytes, each.beside) for each in found} == {(each.size_bytes, False) for each in sent}


def test_what_says_itself_where_its_bytes_are_goes_with_its_row(sender: Sender) -> None:
    """However much it has to say."""
    referred = packet(bytes(LARGE), referred=True)
    assert sender.beside(referred) is referred


async def test_the_rows_of_a_round_say_that_their_bytes_are_beside(sender: Sender, receiver: Receiver) -> None:
    """Only where the two sides are asked to."""
    for beside in (sender, None):
        handover: Handover[Packet] = Handover(LARGE)
        await handover.put(packet(bytes(LARGE)), LARGE)
        handover.close()
        (batch,) = until_over(handover, None, 0, SystemClock(), beside)
        (row,) = from_batch(batch)
        assert row.beside == (beside is not None)
        assert bytes(receiver.whole(row).data) == bytes(LARGE)


def test_the_reader_stays_until_all_is_taken(sender: Sender, receiver: Receiver) -> None:
    """The sink comes later than its rows."""
    rows = [sender.beside(packet(bytes(LARGE))) for _ in range(2)]
    with ThreadPoolExecutor(1) as threads:
        finished = threads.submit(sender.finish, WAIT_SECONDS)
        assert not finished.done()
        for row in rows:
            assert bytes(receiver.whole(row).data) == bytes(LARGE)
        finished.result(WAIT_SECONDS / 2)


def test_a_reader_with_nothing_to_give_waits_for_nobody(sender: Sender) -> None:
    """No sink came, since no row named this."""
    sender.beside(packet(b"small"))
    finish_soon(sender)
    sender.close()
    wait_until(lambda: "beside" not in {thread.name for thread in threading.enumerate()}, "its thread has ended")


def test_a_reader_does_not_wait_for_a_sink_that_has_gone(sender: Sender) -> None:
    """In the middle of a packet."""
    row = sender.beside(packet(bytes(LARGE)))
    sender.beside(packet(bytes(LARGE)))
    with socket.socket(socket.AF_UNIX) as sink:
        sink.connect(bytes(row.data))
        assert sink.recv(1)
    finish_soon(sender)


def test_what_was_not_taken_is_an_error_at_the_sink_and_leaves_nothing(
    sender: Sender, receiver: Receiver, folder: Path
) -> None:
    """The reader ended: no bytes, neither there nor in a file."""
    row = sender.beside(packet(bytes(LARGE)))
    sender.close()
    with pytest.raises(Unreachable, match="the reader of this task has gone"):
        receiver.whole(row)
    assert list(folder.iterdir()) == []


def test_a_sink_learns_that_its_reader_was_killed(folder: Path, receiver: Receiver) -> None:
    """In the middle of a packet: it is not whole, and not given."""
    program = (
        "import sys, pathlib; from fairlead.spark.beside import Sender; from fairlead.spark.packets import Packet\n"
        f"sender = Sender(pathlib.Path(sys.argv[1])); data = bytes({LARGE})\n"
        "print(sender.beside(Packet('', data, len(data))).data.decode(), flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        path = reader.stdout.readline().strip()
        row = Packet("", path.encode(), 2 * LARGE, beside=True)
        with ThreadPoolExecutor(1) as threads:
            whole = threads.submit(receiver.whole, row)
            assert not whole.done()
            os.kill(reader.pid, signal.SIGKILL)
            with pytest.raises(Unreachable, match="the reader of this task has gone"):
                whole.result(WAIT_SECONDS)
