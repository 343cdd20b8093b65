"""The sink of a Spark task: frames to the gateways of their replicas, and to the source server what became of them.

In: encoded frames in order. Out: the gateways' answers as messages. Always true: one ordered connection for each run of
a link; a destination that is dead or slow holds up no other. It never reads a log, but for the batches of a frame that
came by reference.
"""
