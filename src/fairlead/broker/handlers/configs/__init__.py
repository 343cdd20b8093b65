"""Settings of topics and of the broker."""
