"""All commands of the admin interface, as the original's `maprcli stream …` and `mapr copystream` have them.

Names, defaults and meanings: the pages on MapR Streams and their command reference; those that the original does
not have are marked (ours). `docs/guides/commands.md` explains them for people. A module for each noun.
"""

from __future__ import annotations

from fairlead.client.catalog import cluster, copies, cursors, replicas, streams, topics, upstreams

COMMANDS = (
    *streams.COMMANDS,
    *topics.COMMANDS,
    *cursors.COMMANDS,
    *replicas.COMMANDS,
    *upstreams.COMMANDS,
    *streams.NOT_BUILT,
    *cursors.NOT_BUILT,
    *copies.COMMANDS,
    *cluster.CLUSTER,
    *cluster.CLOCK,
    *cluster.JOB,
)
BY_PATH = {command.path: command for command in COMMANDS}
