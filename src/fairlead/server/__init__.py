"""The server: the parts put together in one process, and the listeners by which it is reached.

    assembly.py        starts everything from the bottom up, stops it from the top down
    listeners.py       its Kafka listeners: the main one, and one for each exposed stream
    http_listener.py   its HTTP listener, uvicorn in the same event loop
    addresses.py       who can reach an address, and what others call it by

In: a data directory, settings, addresses. Out: a cluster that answers Kafka clients, REST, links and Spark. It never
decides anything that a part could.
"""
