"""Kafka's behaviour over a cluster's streams.

    server.py        listeners: the main one and one per exposed stream; bounds and closes connections
    connection.py    one client: frames in, answers out in order, garbage disconnects
    memory.py        what all connections hold together; addresses.py what one address may have
    pacing.py        long work in slices, one slice a round of the loop
    dispatch.py      API key and version → the handler's module, and back to bytes
    apis.py          the list of all handlers: what is not in it is not offered
    context.py       what a handler is given
    taking.py        writes that a replica passes on, on the owner's side
    node.py          what a cluster shows itself as: one node, and an id
    errors.py        our errors → Kafka's codes, the only place
    handlers/        a file per API
    settings/        Kafka's settings of topics and of the broker, and what they demand of records
    forwarding/      writes at a copy, passed on to the owner
    fetching/        what a Fetch reads, and what is remembered of it until the next
    groups/          the coordinator of consumer groups
    group_logs/      groups and the logs of streams: what they have committed, what a cut takes, what is kept of them
    topics/          the names a listener shows ⇄ streams and topics, and which one a request means

In: bytes of clients that may be slow, dead or hostile. Out: answers in the order of the requests. Always true: an
answer is sent after the commit it speaks of is durable; a client holds nobody up but itself. A record is opened only
where its topic's settings demand something of it, or for a look-up by time.
"""
