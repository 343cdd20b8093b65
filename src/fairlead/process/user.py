"""The user that this process runs as."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """Its name; its number where the machine knows no name of it, as in a container that runs as any number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
