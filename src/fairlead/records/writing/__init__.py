"""Records of Spark on their way into streams: `df.write.format("fairlead")`, `df.writeStream.format("fairlead")`.

In: Arrow record batches of Spark's tasks. Out: record batches of Kafka's format at a cluster, by the Kafka protocol.
Tasks write what they have into files (*parts*), and nothing else. Once all tasks of a batch have ended well, the driver
names their parts in a *manifest*, which is put once, and sends what they hold. So it does not matter how often tasks
run, in how many pieces, or in which order their records come.

Always true, for a streaming query: of each batch only what its first manifest names is ever sent; a batch of records
goes with the sequence number that the manifest gives it, under the one producer id of the query; what the cluster has
of it already is not sent again.

    options.py     what the user chose
    routing.py     rows → topics and partitions
    encoding.py    rows → record batches
    parts.py       record batches ⇄ files
    staging.py     the folder of a query: parts, manifests, and which batch is done
    checkpoint.py  what Spark itself notes of a batch, made durable
    publishing.py  a manifest → a cluster
    writer.py      the shells that Spark calls
"""
