"""Spark's side of replication: the format `fairlead.link`, and rounds of a task.

In: the address of the source's server. Out: rows that go from a reader to a sink in each task, for the length of a
round. Always true: a task never fails because a remote end does. It never knows what a frame means.
"""
