"""The server: the parts put together in one process, and its Kafka listeners.

In: a data directory, settings, addresses. Out: a cluster that answers Kafka clients, REST, links and Spark. It never
decides anything that a part could.
"""
