"""The source's side of links: what people do with them, who reads and sends what, and how far each one is.

In: records of links, connections of reader and sink tasks, what destinations answer. Out: grants, announcements, the
state that `replica list` shows. Always true: a slice of a link is held by at most one reader at a time. It never
carries a record.

Arrows point downwards:

    control_routes · manager         what tasks say, by WebSocket · the parts put together
    commands · copystream            what people do
    runner · task_reports · autosetup · naming
                                     what changed records and messages of tasks mean for which link; steps of commands
    contact_loop                     the loop of one link
    contacts                         what a destination's answer means
    copies · failures                how a link ends, or fails
    status                           what is shown
    grants/                          who reads what
    running/                         one link while it runs, and all of them
    errors                           what only links meet
"""
