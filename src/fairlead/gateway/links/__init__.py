"""The source's side of links: what people do with them, who reads and sends what, and how far each one is.

In: records of links, connections of reader and sink tasks, what destinations answer. Out: grants, announcements, the
state that `replica list` shows. Always true: a slice of a link is held by at most one reader at a time. It never
carries a record.

Arrows point downwards:

    control_routes · manager         what tasks say, by WebSocket · the parts put together
    orders/                          what people do
    owner_watch                      tells the log of owners that have not heard that they are, or cannot write
    runner · task_reports            what changed records and messages of tasks mean for which link
    contacting/                      a link and its destination: agreeing, failing, ending
    health/                          what is wrong, what mends it, what is shown
    cursor_news · pulse              what groups have committed is told; a destination that was started again
    replicator_life                  whether the replicator lives
    grants/                          who reads what
    running/                         one link while it runs, and all of them
    errors · passing · regularly     what only links meet; which topics go over one; a call every so many seconds
"""
