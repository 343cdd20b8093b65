"""A commit while it is made, the log and the one way in which it grows, and its upkeep.

In: requests; results of merge jobs. Out: answers, announcements. Always true: one commit is under way at a time; what
is answered is durable; a failed commit changes nothing. It never evaluates a frame's rows itself (`applying`).
"""
