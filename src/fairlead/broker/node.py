"""The one node that a cluster shows."""

from __future__ import annotations

NODE_ID = 1
"""The node's id in every answer that names nodes."""
