"""Reading a log: rows out of objects, batches of a partition by offset, the newest of them from memory.

In: what is announced, and storage. Out: columns, batches, sizes, the state that a run of rows leaves. Always true:
nothing beyond the announced end is read; what comes from the disk is checked before it is handed out. It never writes.
"""
