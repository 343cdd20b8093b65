"""How many files and connections this process may have open.

With no open file left, no commit can be written, and a shard whose commit cannot be written stops. So connections are
refused before that: clients alone can stop nothing.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from dataclasses import replace

import structlog

from fairlead.model.settings import Settings

KEPT = 500
"""Open files that are kept for storage and for what this process opens to others, but at most half of the limit."""
HTTP_SHARE = 4
"""HTTP connections get at most this part of the rest, a fourth, so that they leave room for Kafka clients."""

log = structlog.get_logger()


def leave_room(settings: Settings) -> Settings:
    """Raise this process's limit of open files as far as allowed; returns the settings with connections to fit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return settings
    room = limit - min(KEPT, limit // 2)
    http = min(settings.max_http_connections, room // HTTP_SHARE)
    kafka = min(settings.max_connections, room - http)
    if (kafka, http) == (settings.max_connections, settings.max_http_connections):
        return settings
    log.warning(
        "fewer connections: raise the limit of open files (ulimit -n)", open_files=limit, kafka=kafka, http=http
    )
    return replace(settings, max_connections=kafka, max_http_connections=http)
