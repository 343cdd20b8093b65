"""Who reads what: grants, the readers that hold them, and what they are told of the logs.

In: links that may be granted, tasks that come and go, new ends of logs. Out: messages to the tasks. Always true: a
slice of a link is held by at most one reader at a time; runs grow, also across restarts. It never decides what a link
does.
"""
