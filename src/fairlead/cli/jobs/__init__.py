"""Commands whose work the cluster does as a job: transfer, takeover, claim, recover; and `job` itself.

In: a command and its topics. Out: the plan, progress until the job has ended, what became of each topic that did not
go through. Always true: a job goes on without the command that began it, and `job show -id … --wait` takes its place.

    following.py    what all of them share: waiting for a job, Ctrl-C, the outcome
"""
