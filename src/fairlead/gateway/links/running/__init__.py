"""A link while it runs: what it is doing, when it looks again, how far it is, where its destination is.

In: events, answers, reports of tasks. Out: the link's state, for those who act on it. Always true: what a link is doing
is one state of `lifecycle`, which changes by its events alone. It asks nobody and grants nothing.
"""
