"""Values, names, limits, errors and forms of JSON that all other rooms use; imports no other room and does no I/O."""
