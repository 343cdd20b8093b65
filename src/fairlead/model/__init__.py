"""Values, names, limits, errors, forms of JSON that every other room uses; imports nothing of ours and does no I/O."""
