"""What a mirror does to record batches between fetching and producing them; pure functions, no sockets, no clock.

In: what a source answered for a partition. Out: batches that any Kafka broker takes, with the same records. Always
true: keys, values and headers are copied byte for byte; a batch's CRC is verified before anything of it is written
anew, so damage is refused and never blessed; whatever a batch holds, the outcome is its records or one clear refusal.

    source.py, committed.py   one answer → its committed batches, and where to fetch next
    legacy.py                 messages of formats v0 and v1 → batches of v2
    limits.py, choose.py      which batches may go as they are, which are rebuilt, merged or split
    outgoing.py               a batch for the destination; the head of one that goes as it is
    bodies.py                 records of batches → bodies of new ones, by the loops in kernels.py
    rewriter.py               batches of a partition → batches for the same partition
    repartition.py            the same for partitions chosen by key, by the loops in dealing.py
    handled.py                a function of the user's between source and destination, by the loop in protocol/loops
    buffers.py                memory that is used again
"""
