"""What a shard knows, and what each row does to it.

In: rows in the order of the log. Out: topics, partitions, cursors, producers, positions, notes and entries, and their
form in a checkpoint. Always true: only `effects` says what a row does. It never decides and does no I/O.
"""
