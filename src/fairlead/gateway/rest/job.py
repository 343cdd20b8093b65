"""`job list`, `show`, `cancel`: commands that touch many topics, while the cluster carries them out."""

from __future__ import annotations

from dataclasses import asdict

from fairlead.client.command import Given
from fairlead.cluster.jobs import JobRecord
from fairlead.gateway.rest.context import Handler, RestContext, Rows
from fairlead.model.errors import InvalidValue


async def list_jobs(context: RestContext, given: Given) -> Rows:
    return [context.jobs.row(job) for job in context.cluster.jobs.all()]


async def show(context: RestContext, given: Given) -> Rows:
    job = context.cluster.jobs.get(_id(given))
    return [row_of(context, job)]


async def cancel(context: RestContext, given: Given) -> Rows:
    return [row_of(context, await context.jobs.cancel(_id(given)))]


def row_of(context: RestContext, job: JobRecord) -> dict[str, object]:
    """All that there is to say of a job."""
    topics = {"refusals": [asdict(each) for each in job.refusals], "lacks": [asdict(each) for each in job.lacks]}
    return {**context.jobs.row(job), **job.options, **topics}


def _id(given: Given) -> bytes:
    try:
        return bytes.fromhex(given["id"])
    except ValueError as error:
        raise InvalidValue(f"-id {given['id']!r}: give the id of a job; `fairlead job list` shows them") from error


HANDLERS: dict[str, Handler] = {
    "/rest/job/list": list_jobs,
    "/rest/job/show": show,
    "/rest/job/cancel": cancel,
}
