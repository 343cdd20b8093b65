"""A mirror under load, between clusters that are harmed: what the fault tests and the soak test are made of.

ends.py       clusters that can be harmed: Apache Kafka of one or three nodes, Fairlead
load.py       stamped records of every kind, written all the while
harms.py      what is done to clusters, wires and the mirror
story.py      all of it together, and what became of it
keeping.py    the same for a stream that keeps Kafka's topics at Kafka's offsets
checking.py   what was lost, doubled, changed or out of order
soak.py       `make soak`: for hours, with a report
"""
