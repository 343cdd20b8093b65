"""What a Fetch reads, and what is remembered of it until the next.

    parts.py       reading the partitions of one Fetch within its limits, from memory or from the disk
    poll.py        a Fetch without a session, and what its connection remembers of it
    sessions.py    fetch sessions (KIP-227)
    remembered.py  how much all of them remember together, and for one address

In: partitions with offsets, from `handlers/fetch.py`. Out: batches, or that there are none yet. Always true: what is
not read again was read to its end, and is watched. Here are no bytes of requests but those by which a topic that was
named before is known again.
"""
