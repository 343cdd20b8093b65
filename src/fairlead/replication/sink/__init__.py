"""The sink of a Spark task: it posts frames to the gateways of their replicas, and tells the source server the outcome.

In: encoded frames in order. Out: the gateways' answers as messages. Always true: one ordered connection for each run of
a link; a destination that is dead or slow holds up no other. It never reads a log, except for the batches of a frame
that came by reference.
"""
