"""One partition on its way, from what is fetched to what is acknowledged.

    engine.py   who carries partitions, as sources know them; local.py: in this process
    standing.py what is known of a partition
    stream.py   fetches, within bounds of memory
    making.py   what is sent for an answer
    copying.py  what is under way of a partition, in order; settled.py: how far it is mirrored
    exact_copy.py  the same in transactions, each record once

In: answers of a source. Out: sends, positions. Always true: a position covers only what the destination has, or what
was left out for a reason that is told.
"""
