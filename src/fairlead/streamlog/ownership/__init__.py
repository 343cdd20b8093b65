"""Who may give offsets to a topic's records, and what that means for what is here already.

In: epochs, histories, topics and where partitions stand. Out: the next epoch, where two histories part, which rows were
superseded, whether this stream may write a partition. Always true: the same answer at every site, since all of it
follows from what TOPIC rows and histories say. It changes nothing, keeps nothing and does no I/O.
"""
