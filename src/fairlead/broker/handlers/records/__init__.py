"""Records: written, read, found and deleted."""
