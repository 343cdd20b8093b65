"""Kafka clusters whose topics streams of this cluster keep, at Kafka's offsets: the server's part.

    topics.py     Kafka's topics → TOPIC rows of the replica, as an upstream's
    starts.py     records that were deleted in Kafka are deleted here
    cursors.py    what groups have committed in Kafka → cursors of another site
    ends.py       where Kafka's partitions end
    known.py      what was heard of Kafka last
    granting.py   which reader task reads which partitions, and from where
    giving.py     when that is given, and given anew
    parting.py    what Kafka's log has no more is cut off, and kept in a topic of its own
    upstream.py   one Kafka cluster of one stream: asks it every few seconds, and keeps the above up
    upstreams.py  all of them, and what tasks say of them
    orders.py     what people can do with them
    status.py     what `replica list` shows

In: records (`cluster/kafka_upstreams.py`), and what Kafka's brokers say of topics, ends and groups. Out: rows of topics
and cursors, grants. Reader tasks fetch the records and sinks bring them through this cluster's own gateway, as those of
any link. Always true: what a stream keeps of a Kafka cluster is as Kafka has it, or it stops and says why.
"""
