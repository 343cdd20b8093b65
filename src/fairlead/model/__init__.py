"""Values, names, limits and errors that every other room uses; imports nothing of ours and does no I/O."""
