"""Whole batches appended, each partition's in order and once.

    producer.py     an idempotent producer: its id, and lanes that lose their leader
    transactional.py  transactions of such a producer; joining.py: how partitions get into them
    link.py         one connection to a leader: which batches go next
    lanes.py        one partition: sequences, what is under way, what an answer means
    whole_batch.py  a batch that somebody has made

In: batches without a producer. Out: their offsets. Always true: at most five batches of a partition are under way.
"""
