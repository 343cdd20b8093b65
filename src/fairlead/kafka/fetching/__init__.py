"""Partitions read as they are, each from its leader.

    fetcher.py          a set of partitions, whoever leads them
    feed.py             one leader: a connection, a session and at most one answer
    fetch_session.py    what the broker has been told (KIP-227)
    positions.py        how far whole batches reach
    aborted.py          which of them are of aborted transactions

In: partitions and offsets. Out: views of answers. Always true: what was not taken is not fetched over; no batch
is opened.
"""
