"""What is compiled by numba for the rooms that read or write records by the thousand.

memory.py    bytes at an address, varints, and how a loop is compiled
encoding.py  the loop that writes columns as records
columns.py   columns of Arrow, checked, as the bodies of record batches
murmur2.py   Kafka's hash of a key, of one and of a column
"""
