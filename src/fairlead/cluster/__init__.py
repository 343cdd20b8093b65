"""What one cluster knows: its streams and their settings, its links and upstreams, its stream listeners.

In: calls of the broker (Kafka) and of the gateway (REST, links). Out: rows in the logs of its streams, and in its own
log under `meta/`, whose ENTRY rows are a small map of JSON values by the keys of `keys.py`. Always true: what a call
answered is durable; the streams and settings that can be read are those of the log. It never speaks to another cluster
and never opens a socket.
"""
