"""Limits that are part of what Fairlead is: no setting changes them. What a site may change is in `settings.py`."""

from __future__ import annotations

FORMAT_VERSION = 3
"""Version of the data directory; an unknown one is refused with a message that names both."""
LEVEL_MIN = 3
LEVEL_MAX = 3
"""A cluster's log says at which level it is written; this program opens clusters of the levels from LEVEL_MIN to
LEVEL_MAX, and makes new ones at LEVEL_MAX."""

REPLICAS_PER_STREAM_MAX = 64
UPSTREAMS_PER_STREAM_MAX = 64
LINKS_PER_PARTNER_MAX = 8
"""Ids under which a partner brings frames to one replica. It needs one, and while topics come in three; a rescan takes
another, and what is left of the one before is forgotten with time."""
PARTITIONS_PER_TOPIC_MAX = 4096
SHARDS_PER_STREAM_MAX = 256

PORT_MAX = 65_535
"""TCP's largest port number."""
LISTEN_BACKLOG = 1024
"""Connections to one listener that the kernel has opened and nobody has accepted yet."""

OFFSET_METADATA_BYTES_MAX = 4096
"""Kafka's `offset.metadata.max.bytes`."""

TTL_SECONDS_MAX = 100 * 365 * 86_400
CONTROL_ROW_BYTES_MAX = 1024 * 1024

REQUEST_ITEMS_MAX = 100_000
"""Items of one kind (topics, partitions, groups, settings …) in one Kafka request, names or numbers in one call of a
reader: each takes microseconds and memory that is many times its bytes."""
ANSWER_BYTES_MAX = 100_000_000
"""Where a few bytes of a request ask for kilobytes, the answer goes to about this size; what comes after is refused."""

FRAME_BYTES_MAX = 64 * 1024 * 1024
"""Largest frame of a link: frames are cut near `frame_bytes`, but never within a commit."""
CONTROL_MESSAGE_BYTES_MAX = 1024 * 1024
"""Largest message that a server takes on a control connection."""
COMMIT_BYTES_MAX = 48_000_000
"""Upper limit of the settings `commit_bytes_max` and `message_bytes_max`, so that every commit fits into a frame with
its columns and the names of its topics."""
