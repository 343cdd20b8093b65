"""Partitions carried by workers, which are other processes: what each of them does, and who tells them.

A worker is a task of Spark with two processes. Its *reader* looks how far each partition is behind. Of what is far
behind it names ranges; the few records of a tail it fetches itself. Both go in rows to its *sink*, which fetches the
ranges, rewrites, sends, and reports. The *coordinator* is the process of the mirror: it plans, gives partitions to
workers by lanes, hears how far they are, and keeps the books.

    messages     what the coordinator and workers say to each other
    rows         what goes from a reader to its sink
    opening      a worker's clusters, from what the coordinator has read of property files
    scout, reader        the reader
    row_feed, sink       the sink
    pairs, remote, coordinator      who holds which lanes; an engine as sources know it

Always true: a lane has one holder. It is given to a worker only when both its processes are there and both of the one
before are gone, and goes on at the position that was acknowledged; where each record is to arrive once, its sink has
fenced all others of the lane, and goes on at the position that the books say. A worker that loses the coordinator ends.
What one process says in rows is taken in order; a row that does not follow the one before ends the worker. Never: knows
Spark.
"""
