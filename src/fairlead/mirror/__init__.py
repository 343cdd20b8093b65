"""`fairlead mirror`: topics of Kafka clusters copied to another cluster."""
