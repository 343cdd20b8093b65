"""The reader of a Spark task: a source server's grants become frames.

In: grants, announcements and withdrawals; objects of the log. Out: encoded frames in order, as far as their destination
has room. Always true: nothing beyond the announced end is read, and what exists is never decided by a listing. It never
sends a frame itself.
"""
