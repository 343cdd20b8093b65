"""Commands of `cluster`, `clock` and `job`."""

from __future__ import annotations

from fairlead.client.command import Command, Param

CLUSTER = (Command(("cluster",), "info", "Show the cluster: name, addresses, streams, links."),)
CLOCK = (
    Command(
        ("clock",),
        "show",
        "Show whether records expire, or the clock is not believed (ours).",
        columns=("path", "expiry", "clockaheadmillis", "heldmillis", "leftmillis", "why"),
    ),
    Command(
        ("clock",),
        "accept",
        "Believe the cluster's clock as it is now, so that records expire again (ours).",
        changes=True,
        asks="Is the clock of the cluster right? What is too old by it expires now.",
        columns=("path", "clockaheadmillis"),
    ),
)
_JOB_NOUN = ("job",)
_ID = Param("id", "text", "id of the job, as `job list` shows it", required=True)
_JOB_COLUMNS = ("id", "kind", "path", "state", "topics", "done", "refused", "waitsfor", "error")
JOB = (
    Command(_JOB_NOUN, "list", "List the jobs that run, and those that ended lately (ours).", columns=_JOB_COLUMNS),
    Command(_JOB_NOUN, "show", "Show how far a job is, and which topics it refused (ours).", (_ID,)),
    Command(
        _JOB_NOUN,
        "cancel",
        "End a job; what it has done stays (ours).",
        (_ID,),
        changes=True,
        asks="End the job {id}? What it has done stays.",
    ),
)
