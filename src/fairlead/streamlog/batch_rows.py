"""Whether a row says what its batch says, so that nobody needs to read batches for what stands in columns."""

from __future__ import annotations

from typing import Final

from fairlead.model.errors import CorruptBatch
from fairlead.protocol.batch import CONTROL, check_stored, is_abort
from fairlead.streamlog.rows import ABORT, ATTRIBUTES_MASK, REWRITTEN, Row

_NAMES: Final = ("topic epoch", "max timestamp", "records", "attributes", "CRC", "ABORT")


def check_batch_row(row: Row) -> None:
    """
    Raises:
        CorruptBatch: the batch of this BATCH row is not whole, or the row says something else of it.
    """
    header = check_stored(row.batch, row.base_offset, row.last_offset)
    attributes, crc, bits = header.attributes & ATTRIBUTES_MASK, header.crc, row.bits
    if bits & REWRITTEN:
        crc = row.crc
    abort = is_abort(row.batch) if attributes & CONTROL else bool(bits & ABORT)
    held = (header.leader_epoch, header.max_timestamp, header.record_count, attributes, crc, abort)
    said = (row.epoch, row.max_timestamp, row.records, bits & ATTRIBUTES_MASK, row.crc, bool(bits & ABORT))
    if said != held:
        name, of_row, of_batch = next(each for each in zip(_NAMES, said, held, strict=True) if each[1] != each[2])
        raise CorruptBatch(f"the row says {name} {of_row}, its batch {of_batch}")
