"""The admin interface: `/rest/<noun>/<verb>`, a file per noun.

In: parameters that `command.py` has checked. Out: rows for the envelope. Always true: what an answer says is durable;
a GET changes nothing. A call that names a stream of another cluster is sent on to that cluster, once.
"""

from __future__ import annotations

from fairlead.gateway.rest import cluster, copystream, cursor, replica, stream, topic, upstream
from fairlead.gateway.rest.context import Handler

HANDLERS: dict[str, Handler] = {
    **stream.HANDLERS,
    **topic.HANDLERS,
    **cursor.HANDLERS,
    **replica.HANDLERS,
    **upstream.HANDLERS,
    **copystream.HANDLERS,
    **cluster.HANDLERS,
}
"""By the path of the command."""
