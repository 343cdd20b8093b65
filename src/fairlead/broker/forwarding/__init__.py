"""Writes at a copy, passed on to the owner of their topic.

    neighbours.py         where an owner's gateways are, and from whom we take writes
    owner_connection.py   one ordered connection to an owner's gateway: requests out, answers in
    order.py              a producer's later batches do not overtake one that failed on its way
    passing_on.py         what one client's connection has passed on; the place where it is decided that we cannot
    reach.py              whether an owner can be reached
    known.py              of which producers it is certain that nothing unanswered is at the owner
    putting_aside.py      where a batch goes while the owner cannot be reached, and what is put aside
    taking.py             the owner's side: an HTTP connection that became one of Kafka's

In: checked batches of a client. Out: the owner's outcome for each. Always true: what one client sends to one owner goes
in its order over one connection, which ends with the client's; a batch that was passed on to us is not passed on again.
"""
