"""Parameters of several nouns."""

from __future__ import annotations

from fairlead.client.command import Param

FALSE = ("false", "0", "no", "off")
"""What an option takes that is not built."""
PATH = Param("path", "stream", "path of the stream: /ships or /mapr/<cluster>/ships", required=True)
CHOSEN = (
    Param("topics", "text", "only topics whose whole names this regular expression matches (ours)", default="all"),
    Param("excludetopics", "text", "no topic whose whole name this regular expression matches (ours)", default="none"),
)
"""Which topics are meant, by regular expressions."""
PEER = Param(
    "peer",
    "text",
    "own: the source brings topics of any owner; partner: only its own (ours)",
    default="own",
)
