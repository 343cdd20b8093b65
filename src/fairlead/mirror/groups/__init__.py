"""Consumer groups go with their topics: offsets that they have committed become offsets of the destination.

    history.py, barriers.py     what is remembered of the offsets at both ends, bounded
    translating.py              from one offset to the other; pure
    turning.py                  where partitions of a topic begin to keep their numbers, or to be dealt by key
    tracks.py                   both for all partitions of a source, and what of them the books lack
    counting.py, stepping.py    records between two places that are remembered, counted at the source, and where so many
                                end at the destination
    facing.py                   mirrors that carry the destination's topics to the source
    reaching.py                 where groups stand at the destination
    syncing.py, checkpoints.py  what is done with it: commits, and records in MirrorMaker 2's form

In: what partitions have moved (`carrying/line.py`), what groups have committed. Out: commits and checkpoints at the
destination; records for the books. Always true: no record that a group has not read lies below where it is put.
"""
