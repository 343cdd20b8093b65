"""The table of all handlers of the admin interface."""

from __future__ import annotations

from fairlead.gateway.rest import clock, cluster, copystream, cursor, failover, job, replica, stream, topic, upstream
from fairlead.gateway.rest.context import Handler

HANDLERS: dict[str, Handler] = {
    **stream.HANDLERS,
    **topic.HANDLERS,
    **cursor.HANDLERS,
    **failover.HANDLERS,
    **replica.HANDLERS,
    **upstream.HANDLERS,
    **copystream.HANDLERS,
    **cluster.HANDLERS,
    **clock.HANDLERS,
    **job.HANDLERS,
}
"""By the path of the command."""
