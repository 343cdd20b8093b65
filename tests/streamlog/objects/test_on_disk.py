"""What a lone record takes on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.streamlog.world import FakeClock, SeededRandomness, made, produced
from tests.support.packs import always_packed

from fairlead.storage import names
from fairlead.storage.pack_file import BLOCK
from fairlead.streamlog.writing.writer import ShardLog

RECORDS = 5


@pytest.mark.parametrize("value_bytes", [270, 1024])
def test_a_lone_record_is_one_block_of_a_pack(tmp_path: Path, value_bytes: int) -> None:
    """With the head of its pack's record and its commit's. A site that writes a record every few milliseconds writes
    nothing but such commits."""
    storage = always_packed(tmp_path)
    randomness = SeededRandomness(1)
    prefix = names.shard_prefix(randomness.id16(), 0)
    log = ShardLog.open(storage, prefix, stream_id=b"a" * 16, clock=FakeClock(), randomness=randomness)
    number = made(log).number
    for _ in range(RECORDS):
        produced(log, number, randomness.id16() * (value_bytes // 16) + bytes(value_bytes % 16))
    blocks = [block for pack in tmp_path.glob(".packs/*.pack") for block in written(pack.read_bytes())]
    assert len(blocks) >= 1 + RECORDS, "the commits are in packs"
    assert [block[:4] for block in blocks] == [b"FLR2"] * len(blocks), "no record has a second block"


def written(pack: bytes) -> list[bytes]:
    """The blocks behind the header of a pack in which something was written."""
    blocks = [pack[start : start + BLOCK] for start in range(BLOCK, len(pack), BLOCK)]
    return [block for block in blocks if block != bytes(BLOCK)]
