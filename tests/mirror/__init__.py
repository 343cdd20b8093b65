"""`fairlead mirror`, on clusters in memory, and between brokers of Fairlead's own."""
