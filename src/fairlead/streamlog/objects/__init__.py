"""Bytes of the objects that a log consists of, and opening a log by its objects.

In: rows, columns, manifests, tables. Out: buffers to be stored, and the same back, checked. Always true: every byte but
those of a record batch is covered by a checksum; what does not fit its checksum, its length or itself is Damaged. It
never knows what a row does.
"""
