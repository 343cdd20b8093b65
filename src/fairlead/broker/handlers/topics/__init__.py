"""Topics and their partitions: made, told of, deleted."""
