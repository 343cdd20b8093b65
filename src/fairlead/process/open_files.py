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
"""Open files that are kept for storage, HTTP and links, but at most half of the limit."""

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
    if settings.max_connections <= room:
        return settings
    log.warning(
        "fewer Kafka connections: raise the limit of open files (ulimit -n)", open_files=limit, connections=room
    )
    return replace(settings, max_connections=room)
