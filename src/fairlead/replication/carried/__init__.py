"""What Spark carries from the reader of a task to its sink: rows that are frames, small ones whole, large ones by
reference.

In: frames and where their batches lie. Out: packets for `fairlead.spark`, and the frames' bytes back. It never opens a
connection.
"""
