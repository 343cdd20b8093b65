"""Frames: rows of some slices on their way to another cluster, and their bytes.

In: rows or columns of a log. Out: bytes that stand alone, and frames back. Always true: a frame means the same on any
connection, in any order, sent twice. It never knows a socket.
"""
