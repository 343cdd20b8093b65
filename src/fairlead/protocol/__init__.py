"""Kafka's bytes and our values, both ways; pure functions, no sockets, no clock.

    batch.py     the 61-byte header of a v2 record batch: read, check, fill in offsets, build
    heads.py     a batch's header for another log or another producer, its records unread
    records.py   what lies inside a batch: decompress, iterate; only for look-ups by time and for tools
    loops/       what is compiled for the rooms that read or write many records
    wire.py      the primitive types of Kafka's messages, bounded: hostile bytes raise, they never hang
    framing.py   requests, or answers, cut out of a connection's bytes
    messages.py  the cold messages: requests read, answers written, and the other way round, by what kio knows
                 (schema.py)
    produce.py, fetch.py, metadata.py   hot answers and requests, packed by hand
    client_produce.py, client_fetch.py   the same two as a client speaks them

Always true: record bytes are carried, never rewritten, except for the fields outside the CRC (base offset, leader
epoch) and the two that `LogAppendTime` changes.
"""
