"""Every handler, by name. A new API is a file in `handlers/` and a line here."""

from __future__ import annotations

from fairlead.broker.dispatch import table_of
from fairlead.broker.handlers import (
    api_versions,
)

APIS = table_of((api_versions,))
"""What is served, by API key."""

OFFERED = {key: api.versions for key, api in APIS.items()}
"""Versions by API key, as ApiVersions answers them."""
