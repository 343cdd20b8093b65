"""How tests of a cluster open it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fairlead.cluster.cluster import Cluster

Open = Callable[[str], Awaitable[Cluster]]
"""Opens the cluster of that name on the test's storage; an earlier one is closed first."""
