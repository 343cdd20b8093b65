"""Commits become segments: what to merge next, what stays of it, and the process that does it.

In: a manifest, commits that wait, the cut-off of expiry. Out: jobs, and their results for the writer to install. Always
true: replaying what stays gives the same state, but for expired records; nobody reads an output before a manifest names
it. It never puts a manifest, and deletes nothing but what a failed job has made.
"""
