"""The sink task against gateways and a source server on real sockets."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from tests.replication.fakes import LINK, RUN, fake_control, fake_gateway, link_frame, running
from tests.support.apply_peer import ANSWER, ApplyPeer, packed, serve_apply
from tests.support.waiting import WAIT_SECONDS, a_quiet_while, in_time, until

from fairlead.model.errors import Unreachable
from fairlead.replication.carried.addresses import parse_address
from fairlead.replication.carried.referred import ReferredFrame
from fairlead.replication.sink import task
from fairlead.replication.sink.connection import ApplyConnection, SinkSettings
from fairlead.replication.sink.dial import ApplyWire
from fairlead.replication.sink.task import SinkTask
from fairlead.spark.control import Control
from fairlead.spark.packets import Packet
from fairlead.storage.local import LocalStorage
from fairlead.streamlog.frames.codec import sealed
from fairlead.streamlog.values import GrantRun
from fairlead.wire.apply import Applied, Error, Ok
from fairlead.wire.connection import ApplyStream
from fairlead.wire.control import Failed, Progress, SinkHello, WithdrawRun
from fairlead.wire.framing import ANSWERS
from fairlead.wire.messages import to_json

OTHER = b"O" * 16


def black_hole() -> socket.socket:
    """A listener that never accepts: connections open and nothing is ever answered."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    return listener


async def test_frames_reach_the_gateway_in_order_and_progress_the_server() -> None:
    """What is offered is posted in order over one connection, and the server hears what was applied."""
    async with fake_control() as control, fake_gateway() as gateway:
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            for number in range(20):
                sink.offer(link_frame(b"%d" % number, gateway.url))
            await control.until(lambda: sum(p.frames for p in control.all(Progress)) == 20)
        assert gateway.frames == [b"%d" % number for number in range(20)]
        assert len(gateway.hellos) == 1
        assert sum(p.size_bytes for p in control.all(Progress)) == sum(map(len, gateway.frames))
        assert sum(p.records for p in control.all(Progress)) == 20


async def test_no_more_than_the_window_is_in_flight() -> None:
    """A gateway that does not answer gets as many bytes as its window allows, and one frame at least."""
    async with fake_control() as control, fake_gateway(window_bytes=250) as gateway:
        gateway.answering.clear()
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            for _ in range(5):
                sink.offer(link_frame(bytes(100), gateway.url))
            await gateway.until(1)
            await a_quiet_while()
            assert len(gateway.frames) <= 2
            gateway.answering.set()
            await control.until(lambda: sum(p.frames for p in control.all(Progress)) == 5)


async def test_frames_that_come_together_are_sent_together_within_the_window() -> None:
    """Small and large ones mixed all arrive once, in order, though few fit into the window at a time."""
    data = [bytes([number]) * (30_000 if number % 3 else 90_000) for number in range(30)]
    async with fake_control() as control, fake_gateway(window_bytes=200_000) as gateway:
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            sink.offer(*(link_frame(each, gateway.url) for each in data))
            await control.until(lambda: sum(p.frames for p in control.all(Progress)) == len(data))
        assert gateway.frames == data


async def test_a_frame_that_is_referred_to_is_read_and_sent(tmp_path: Path) -> None:
    """Its bytes at the gateway are those of the frame, whichever objects they came from."""
    LocalStorage(tmp_path).put_if_absent("one", b"..first....")
    LocalStorage(tmp_path).put_if_absent("two", b"second!")
    async with fake_control() as control, fake_gateway() as gateway:
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            sink.offer(referred_link_frame(tmp_path, gateway.url))
            await control.until(lambda: sum(p.frames for p in control.all(Progress)) == 1)
        (frame,) = gateway.frames
        assert frame == b"".join(sealed(b"{}", b"columns", [b"first", b"second"]))
        assert sum(p.size_bytes for p in control.all(Progress)) == len(frame)


async def test_a_frame_whose_object_is_gone_fails_its_run(tmp_path: Path) -> None:
    """The server is told why, and grants its rows anew."""
    LocalStorage(tmp_path).put_if_absent("two", b"second!")
    async with fake_control() as control, fake_gateway() as gateway:
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            sink.offer(referred_link_frame(tmp_path, gateway.url))
            await control.until(lambda: bool(control.all(Failed)))
            (failed,) = control.all(Failed)
            assert (failed.link, failed.run, failed.reason) == (LINK, RUN, "missing")
            assert "one" in failed.message
        assert gateway.frames == []


async def test_an_error_that_nobody_expects_fails_its_run_only() -> None:
    """What is no frame ends its own connection: the server is told what happened, and other links go on."""
    async with fake_control() as control, fake_gateway() as gateway:
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            sink.offer(replace(link_frame(b"no frame", gateway.url, link=OTHER), referred=True))
            await control.until(lambda: bool(control.all(Failed)))
            sink.offer(link_frame(b"1", gateway.url))
            await gateway.until(1)
        (failed,) = control.all(Failed)
        assert (failed.link, failed.run, failed.reason) == (OTHER, RUN, "fairlead_error")
        assert failed.message.startswith("the sink failed (")
        assert gateway.frames == [b"1"]


def referred_link_frame(root: Path, url: str) -> Packet:
    """`first` of the object one, then `second` of two."""
    frame = ReferredFrame(
        str(root),
        ["one", "two"],
        b"{}",
        b"columns",
        np.array([0, 1], np.int32),
        np.array([2, 0], np.int64),
        np.array([5, 6], np.int64),
    )
    return replace(link_frame(frame.to_bytes(), url), size_bytes=frame.size_bytes, referred=True)


async def test_a_black_hole_holds_nobody_up() -> None:
    """One destination takes connections and answers nothing: the other gets its frames though it is waited for."""
    hole = black_hole()
    settings = SinkSettings(stall_seconds=2 * WAIT_SECONDS, open_seconds=2 * WAIT_SECONDS)
    async with fake_control() as control, fake_gateway() as gateway:
        sink = SinkTask(control.url, "w", settings)
        async with running(sink.run()):
            for number in range(50):
                sink.offer(link_frame(b"x", f"http://127.0.0.1:{hole.getsockname()[1]}", link=OTHER))
                sink.offer(link_frame(b"%d" % number, gateway.url))
            await gateway.until(50)
        assert control.all(Failed) == []
    hole.close()


async def test_a_black_hole_is_told_of() -> None:
    """When it has answered nothing for some time."""
    hole = black_hole()
    async with fake_control() as control:
        sink = SinkTask(control.url, "w", SinkSettings(stall_seconds=0.2, open_seconds=0.2))
        async with running(sink.run()):
            sink.offer(link_frame(b"x", f"http://127.0.0.1:{hole.getsockname()[1]}", link=OTHER))
            await control.until(lambda: bool(control.all(Failed)))
        assert [failed.link for failed in control.all(Failed)] == [OTHER]
    hole.close()


async def test_a_refused_link_is_told_once_and_its_frames_are_dropped() -> None:
    """The gateway's code reaches the server; later frames of the run open no connection, those of a newer run do."""
    async with fake_control() as control, fake_gateway(error=Error("not_agreed", "run upstream add")) as gateway:
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            sink.offer(link_frame(b"1", gateway.url))
            await control.until(lambda: bool(control.all(Failed)))
            sink.offer(link_frame(b"2", gateway.url))
            gateway.error = None
            sink.offer(link_frame(b"3", gateway.url, run=GrantRun(1, 2)))
            await gateway.until(1)
        assert control.all(Failed) == [Failed(LINK, RUN, 0, "not_agreed", "run upstream add")]
        assert gateway.frames == [b"3"]


async def test_a_dead_gateway_is_skipped_for_the_next_one_of_its_cluster() -> None:
    """With two addresses the living one is used."""
    async with fake_control() as control, fake_gateway() as gateway:
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            sink.offer(link_frame(b"1", "http://127.0.0.1:1", gateway.url))
            await gateway.until(1)
        assert not control.all(Failed)


async def test_a_gateway_that_falls_silent_is_given_up() -> None:
    """Frames in flight and nothing moving for the stall time: the run has failed."""
    async with fake_control() as control, fake_gateway() as gateway:
        gateway.answering.clear()
        sink = SinkTask(control.url, "w", SinkSettings(stall_seconds=0.5))
        async with running(sink.run()):
            sink.offer(link_frame(b"1", gateway.url))
            await control.until(lambda: bool(control.all(Failed)))
        assert control.all(Failed)[0].reason == "unreachable"
        gateway.answering.set()


async def test_a_queue_beyond_its_bound_fails_the_run_as_slow() -> None:
    """Memory is bounded whatever a reader sends."""
    async with fake_control() as control, fake_gateway(window_bytes=10) as gateway:
        gateway.answering.clear()
        sink = SinkTask(control.url, "w", SinkSettings(queue_bytes_max=1000))
        async with running(sink.run()):
            for _ in range(20):
                sink.offer(link_frame(bytes(100), gateway.url))
            await control.until(lambda: bool(control.all(Failed)))
        assert control.all(Failed)[0].reason == "slow"
        gateway.answering.set()


async def test_a_withdrawn_run_is_dropped() -> None:
    """After the server's word nothing of the run is posted any more."""
    async with fake_control() as control, fake_gateway(window_bytes=1) as gateway:
        gateway.answering.clear()
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            for number in range(10):
                sink.offer(link_frame(b"%d" % number, gateway.url))
            await gateway.until(1)
            await control.say(WithdrawRun(LINK, RUN, 0))
            async with in_time():
                await sink.until_settled()
            gateway.answering.set()
            sink.offer(link_frame(b"late", gateway.url))
            sink.offer(link_frame(b"new", gateway.url, run=GrantRun(1, 2)))
            await gateway.until(2)
        assert gateway.frames == [b"0", b"new"]


async def test_a_run_of_one_shard_says_nothing_of_another() -> None:
    """Each shard counts its own runs, and they may be given by servers that know nothing of each other."""
    async with fake_control() as control, fake_gateway() as gateway:
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            sink.offer(link_frame(b"before", gateway.url, shard=1))
            await gateway.until(1)
            await control.say(WithdrawRun(LINK, GrantRun(7, 12), 0))
            sink.offer(link_frame(b"before", gateway.url, shard=0, run=GrantRun(7, 13)))
            await gateway.until(2)
            sink.offer(link_frame(b"dropped", gateway.url, shard=0, run=GrantRun(7, 12)))
            sink.offer(link_frame(b"other", gateway.url, shard=1, run=GrantRun(3, 1)))
            await gateway.until(3)
            async with in_time():
                await sink.until_settled()
        assert gateway.frames == [b"before", b"before", b"other"]
        assert {(told.shard, told.run) for told in control.all(Progress)} == {
            (1, RUN),
            (0, GrantRun(7, 13)),
            (1, GrantRun(3, 1)),
        }


async def test_a_gateway_that_has_moved_says_where_to() -> None:
    """The connection goes on there, with the frames that waited; but not for ever from one to the next."""
    async with fake_control() as control, fake_gateway() as there, fake_gateway() as here:
        sink = SinkTask(control.url, "w")
        here.error = Error("moved", "another server takes this now", (there.url,))
        async with running(sink.run()):
            sink.offer(link_frame(b"1", here.url))
            await there.until(1)
            async with in_time():
                await sink.until_settled()
            there.error = Error("moved", "another server takes this now", (here.url,))
            sink.offer(link_frame(b"2", here.url, run=GrantRun(1, 2)))
            await control.until(lambda: bool(control.all(Failed)))
        assert there.frames == [b"1"]
        assert [(told.run, told.reason) for told in control.all(Failed)] == [(GrantRun(1, 2), "moved")]


async def test_a_gateway_that_goes_before_it_is_greeted_is_given_up() -> None:
    """Nothing can be sent any more, and nothing comes: the run waited for ever."""
    transport = Mock(spec=asyncio.Transport)
    transport.is_closing.return_value = True
    transport.get_extra_info.return_value = None
    stream = ApplyStream(ANSWERS)
    stream.take_over(transport)
    address = parse_address(link_frame(b"1", "http://127.0.0.1:1").address)
    connection = ApplyConnection(address, SinkSettings(stall_seconds=0.05), Mock())
    with pytest.raises(Unreachable, match="does not answer"):
        async with in_time():
            await connection._greet(ApplyWire(stream))  # noqa: SLF001 - over a socket that moment cannot be met


async def test_a_run_over_a_thin_link_is_not_given_up_while_a_byte_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that takes longer than the stall time: at each look a little more of it has arrived. When nothing more
    arrives, the run has failed."""
    frame = link_frame(b"1", "http://127.0.0.1:1")
    connection = ApplyConnection(parse_address(frame.address), SinkSettings(stall_seconds=0), Mock())
    connection._sent.append(frame)  # noqa: SLF001 - sockets have buffers, so that there is no telling what moves
    arrived: list[int] = [*range(100), 99, 99]

    class ThinWire:
        @property
        def acknowledged_bytes(self) -> int:
            return arrived.pop(0)

    monkeypatch.setattr("fairlead.replication.sink.connection._WATCH_SECONDS", 0.001)
    with pytest.raises(Unreachable, match="nothing moved"):
        async with in_time():
            await connection._watch(ThinWire())  # type: ignore[arg-type]  # noqa: SLF001
    assert len(arrived) <= 1


async def test_a_round_ends_whatever_is_unfinished() -> None:
    """`finish` waits its grace for a silent gateway and no longer."""
    async with fake_control() as control, fake_gateway() as gateway:
        gateway.answering.clear()
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            sink.offer(link_frame(b"1", gateway.url))
            await gateway.until(1)
            async with in_time():
                await sink.finish(0.2)
        gateway.answering.set()


async def test_what_was_lost_with_the_control_connection_is_made_good() -> None:
    """Nobody can tell which progress was heard: the run is given up, and told so on the next connection, so that its
    reader does not wait for credit for ever. Newer runs go on."""
    async with fake_control() as control, fake_gateway() as gateway:
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            sink.offer(link_frame(b"1", gateway.url))
            await control.until(lambda: len(control.all(Progress)) == 1)
            await control.sockets[-1].close()
            await control.until(lambda: bool(control.all(Failed)))
            sink.offer(link_frame(b"2", gateway.url))
            sink.offer(link_frame(b"3", gateway.url, run=GrantRun(1, 2)))
            await control.until(lambda: sum(p.frames for p in control.all(Progress)) == 2)
        assert [(failed.link, failed.run) for failed in control.all(Failed)] == [(LINK, RUN)]
        assert gateway.frames == [b"1", b"3"]


async def test_progress_that_was_not_told_is_not_told_to_the_next_server() -> None:
    """It may have been started again, and ends the connection of a sink that speaks of runs which it never gave."""
    async with fake_control() as control, fake_gateway() as gateway:
        sink = SinkTask(control.url, "w", SinkSettings(report_seconds=2 * WAIT_SECONDS))
        async with running(sink.run()):
            sink.offer(link_frame(b"1", gateway.url))
            await control.until(lambda: bool(control.all(Progress)))
            sink.offer(link_frame(b"2", gateway.url))
            await gateway.until(2)
            await until(lambda: sink._pending)  # noqa: SLF001 - nobody is told
            await control.sockets[-1].close()
            await control.until(lambda: bool(control.all(Failed)))
        assert [type(message) for message in control.heard] == [SinkHello, Progress, SinkHello, Failed]


async def test_a_failure_that_was_told_is_told_again_on_the_next_control_connection() -> None:
    """The server may have gone before it heard of it; the link would stand still until the round ends."""
    async with fake_control() as control, fake_gateway(error=Error("not_agreed", "run upstream add")) as gateway:
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            sink.offer(link_frame(b"1", gateway.url))
            await control.until(lambda: len(control.all(Failed)) == 1)
            await control.sockets[-1].close()
            await control.until(lambda: len(control.all(Failed)) == 2)
        assert [(failed.link, failed.run, failed.reason) for failed in control.all(Failed)] == [
            (LINK, RUN, "not_agreed"),
            (LINK, RUN, "unreachable"),
        ]


async def test_a_failure_is_told_though_it_cannot_be_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the link would stand still, and nobody would know."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(task.log, "warning", fail)
    async with fake_control() as control, fake_gateway(error=Error("not_agreed", "run upstream add")) as gateway:
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            sink.offer(link_frame(b"1", gateway.url))
            await control.until(lambda: bool(control.all(Failed)))
            sink.offer(link_frame(b"2", gateway.url))
            assert sink.settled, "the run was dropped"


async def test_a_failure_that_could_not_be_told_is_told_on_the_next_control_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection breaks just when it is said: it comes once, with its own reason."""
    send, breaking = Control.send, [Unreachable("cut off")]

    async def send_or_break(self: Control, message: object) -> None:
        if isinstance(message, Failed) and breaking:
            raise breaking.pop()
        await send(self, message)

    monkeypatch.setattr(Control, "send", send_or_break)
    async with fake_control() as control, fake_gateway(error=Error("not_agreed", "run upstream add")) as gateway:
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            sink.offer(link_frame(b"1", gateway.url))
            await control.until(lambda: bool(control.all(Failed)))
        assert len(control.sockets) == 2
        assert control.all(Failed) == [Failed(LINK, RUN, 0, "not_agreed", "run upstream add")]


async def test_a_gateway_that_answers_more_than_was_sent_is_not_believed() -> None:
    """Its count would free what was never applied."""

    async def serve(peer: ApplyPeer) -> None:
        await peer.recv()
        await peer.send(to_json(Ok(1 << 20)))
        await peer.recv()
        await peer.send(to_json(Applied(2, (), 2, 0, 0)))
        await peer.recv()

    async with fake_control() as control, serve_apply(serve) as url:
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            sink.offer(link_frame(b"1", url))
            await control.until(lambda: bool(control.all(Failed)))
        assert control.all(Failed) == [Failed(LINK, RUN, 0, "unreachable", "the gateway answered frame 2 of 1 sent")]
        assert not control.all(Progress)


async def test_a_gateway_that_says_no_later_is_heard_though_it_closes_at_once() -> None:
    """Its reason reaches the server, and not that the connection broke while frames were being sent."""

    async def serve(peer: ApplyPeer) -> None:
        await peer.recv()
        await peer.send(to_json(Ok(1 << 30)))
        await peer.recv()
        await peer.send(to_json(Error("storage_full", "no room")))
        peer.writer.write_eof()
        async for _ in peer:
            pass

    async with fake_control() as control, serve_apply(serve) as url:
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            for _ in range(20):
                sink.offer(link_frame(bytes(1_000_000), url))
            await control.until(lambda: bool(control.all(Failed)))
        assert control.all(Failed) == [Failed(LINK, RUN, 0, "storage_full", "no room")]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "no gateway of Fairlead"),
        (b"HTTP/1.1 101 Switching Protocols\r\n" + b"a: b\r\n" * 2000 + b"\r\n", "longer than 8192 bytes"),
        (ANSWER.replace(b"fairlead-apply", b"websocket"), "another protocol than fairlead-apply"),
        (ANSWER + struct.pack("<IB", 2_000_000, 0), "a message of 2,000,000 bytes; at most 1,048,576"),
        (ANSWER + struct.pack("<IB", 10, 1), "a message of kind 1, which is not expected here"),
        (ANSWER + packed("{}")[:-1], "closed in the middle of a message"),
        (b"HTTP/1.1 101", "closed before the gateway had answered"),
    ],
)
async def test_what_is_no_gateway_is_told_clearly(answer: bytes, words: str) -> None:
    """A proxy that does not pass the Upgrade on, another server, wrong messages."""

    async def serve(peer: ApplyPeer) -> None:
        peer.writer.write_eof()
        await peer.reader.read()

    async with fake_control() as control, serve_apply(serve, answer) as url:
        sink = SinkTask(control.url, "w")
        async with running(sink.run()):
            sink.offer(link_frame(b"1", url))
            await control.until(lambda: bool(control.all(Failed)))
        (failed,) = control.all(Failed)
        assert failed.reason == "unreachable"
        assert words in failed.message
