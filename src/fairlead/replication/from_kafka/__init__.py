"""The reader of a Kafka cluster's partitions: asyncio, without Spark.

    reader.py    one grant: what is fetched becomes frames, as far as the replica has room
    rows.py      batches of an answer → rows

In: a grant, and brokers. Out: frames of the link protocol, which the sink brings to the replica's gateway. Always
true: a partition's rows follow one another from where the replica's log ends; batches are as the broker has them,
aborted ones left out; what cannot be read on stops its partition, and is told. It never reads what is in the log.
"""
