"""The topics that a listener shows.

    topics.py           names ⇄ streams and topics; packed_topics.py: all of them for Metadata
    partitions.py       the topic and epoch that a request means
    topic_changes.py    what one request asks of many topics
    authorized.py       what a client may do with them

In: names, ids and epochs of clients. Out: streams and topics, or the code that says why not. Here are no records.
"""
