"""What is refused is not kept: no exception holds on to requests and their batches until the collector comes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.streamlog.world import batch_of, committed, fresh, made
from tests.support.batches import produce

from fairlead.model.errors import Damaged, FairleadError, NotOwner, OffsetOutOfRange, StorageFull, another
from fairlead.streamlog.writing.draft import DraftRequest
from fairlead.streamlog.writing.shard import Shard
from fairlead.streamlog.writing.writer import ShardLog


class Memory(bytearray):
    """A batch that tells when it is gone."""


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def request_of(memory: Memory) -> DraftRequest[object]:
    """Produce it to a topic that is not there."""
    return lambda draft: produce(draft, 999, 0, memoryview(memory))


def refused(log: ShardLog) -> weakref.ref[Memory]:
    """A batch that was refused and let go of."""
    memory = Memory(batch_of(b"x" * 1000))
    try:
        assert committed(log, request_of(memory))[0].error is not None
    except Damaged:
        assert log.health.stopped is not None
    return weakref.ref(memory)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_refused_batch_is_let_go_of(is_stopped: bool) -> None:
    """Also by a log that is stopped, which answers all with one error."""
    log = fresh()
    made(log)
    if is_stopped:
        log.health.stop(Damaged("x", "it is broken"))
    assert [ref() for ref in [refused(log) for _ in range(5)]] == [None] * 5


async def refused_by(shard: Shard) -> weakref.ref[Memory]:
    """The same for a shard."""
    memory = Memory(batch_of(b"x" * 1000))
    with contextlib.suppress(FairleadError):
        await shard.submit(request_of(memory))
        pytest.fail("it was taken")
    return weakref.ref(memory)


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_shard_lets_go_of_what_it_refused(is_stopped: bool) -> None:
    with ThreadPoolExecutor(2) as executor:
        log = fresh()
        shard = Shard(log, executor)
        if is_stopped:
            log.health.stop(Damaged("x", "it is broken"))
        refs = [await refused_by(shard) for _ in range(5)]
        await asyncio.sleep(0)
        assert [ref() for ref in refs] == [None] * 5
        await shard.close()


@pytest.mark.parametrize(
    "error",
    [
        Damaged("x", "why"),
        OffsetOutOfRange(3, 1, 2),
        NotOwner("ships", "rotterdam"),
        StorageFull("disk", 1, 2),
        FairleadError("plain"),
    ],
)
def test_another_is_the_same_error_without_its_past(error: FairleadError) -> None:
    with pytest.raises(type(error)) as raised:
        raise error
    twin = another(raised.value)
    assert raised.value.__traceback__ is not None
    assert (type(twin), str(twin), vars(twin)) == (type(error), str(error), vars(error))
    assert twin.__traceback__ is None
