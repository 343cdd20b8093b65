"""The topics at the destination in which mirrors keep their books.

    book.py     the records of positions and of who runs the mirror
    points.py   the records by which offsets of groups are translated
    origins.py  the registry of producer ids, by which loops are prevented
    journal.py  a small compacted topic, read from start to end; plain.py: a batch of such records

In: records. Out: positions, holders, origins. Always true: a record of another version stops the mirror.
"""
