"""Records for Spark users: the stream log, read where it lies and decoded into Arrow; and rows written to topics.

In: a stream's path, log positions and the objects that its server names. Out: Arrow record batches with the columns of
Spark's Kafka source and `origin`. Always true: nothing past the announced end is read, readers never list, inconsistent
bytes raise `CorruptBatch` and are never followed outside their batch, no Python loop runs per record. It never writes
a log (rows go to a cluster by the Kafka protocol) and never starts Spark; Spark finds it through `pyspark_fairlead`.

    given.py      options as Spark hands them over, and the place that they name
    writing/      DataFrames → record batches at a cluster, exactly once for streaming queries

    options.py    what the user chose
    client.py     questions to the stream's server: plan, topics
    position.py   the streaming offset: a position in each shard's log
    planner.py    positions → tasks
    limiting.py   how far a micro-batch with `maxOffsetsPerTrigger` goes
    reading.py    a task → Arrow record batches
    decode.py     Kafka record batches → one Arrow record batch, by the loops in kernels.py
    source.py     the shell that Spark calls
"""
