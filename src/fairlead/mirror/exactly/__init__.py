"""Each record once: batches and the position behind them take effect together, by a transaction at the destination.

    portions.py  what must take effect together
    strand.py    the transactions of one lane and one origin
    lane.py      who carries a lane, where its partitions stand, and how it goes back after a transaction that failed
    lanes.py     the lanes of a mirror that this process carries
    beginnings.py  where partitions begin that workers carry

In: portions, in the order of their partitions. Out: transactions; positions of what was committed.

A transaction has one producer id, and a producer id one origin (`books/origins.py`). So a lane has a transactional id
of its own, `fairlead-mirror.<name>.<lane>`, and one for each origin, `fairlead-mirror.<name>.<lane>.<cluster id>`.
Where workers carry, the process that gives them partitions has `fairlead-mirror.<name>.begin`.

Always true: a position moves only with the commit of what lies below it. Whoever opens a lane first makes all of its
transactional ids its own, so that nobody else can commit anything in it, and only then reads where it stands. So
nothing but the destination decides what was mirrored, whatever was killed, paused or cut off; the record of the holder
only spares two processes a quarrel.
"""
