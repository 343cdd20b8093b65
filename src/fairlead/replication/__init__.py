"""The replicator: moves frames along a cluster's links, carried by Spark.

In: grants of the source server (which link, which slices, from which commit) and the objects that it names.
Out: frames posted to the replicas' gateways, and messages to the source server about what was read, applied, refused
or dropped.

    spark/source  →  Spark  →  spark/sink     the Data Source shells, format `fairlead.link`
      spark/rounds               spark/rounds   one round of a task, beside Spark's thread
        reader/        carried/       sink/       asyncio programs without Spark, and what goes between them

Always true: nobody here decides a position, an offset or a grant; all state is the server's and the gateways', so any
process of this room may be killed at any moment. It never lists or writes a log, and never reads past an announced end.
"""
