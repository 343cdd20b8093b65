"""HTTP: the admin interface, what other clusters and Spark tasks say to this one, and what links say to other clusters.

In: REST calls, control connections of reader and sink tasks, frames for replicas here, contacts of links whose replica
is here. Out: changes of the cluster's records, grants and announcements, commits in the replicas' logs, numbers.
Always true: what an answer says is durable; a GET changes nothing; a source writes only where it is named as
upstream; no destination makes another wait. Nothing here decides what a row does: that is `streamlog`.
"""
