"""Applying frames: rows of another cluster's log become rows here, or notes that they are missing.

In: a frame and the draft of a commit. Out: rows, the link's position and its notes in that commit. Always true:
applying twice changes nothing; a position never goes back, never skips and is never ahead of the data. It never reads
the disk.
"""
