"""Consumer groups and the logs of streams.

    group_log.py        what is kept of groups, so that it outlives the process
    cursors.py          what groups have committed, as a listener sees it
    cuts.py             groups that have read what a log has lost rebalance; subscriptions.py: what members read

In: records of groups, commits, cuts. Out: entries of logs; groups that are read again; rebalances.
"""
