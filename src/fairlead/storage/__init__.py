"""Named immutable objects and one primitive, put-if-absent; knows nothing of what the objects mean.

    interface   what a storage must do, and the outcomes of a put
    names       every object name, built and parsed
    local       a directory: temporary file, fdatasync, link, fsync of the directories
    memory      for tests: loses what was not synced, fails where it is told to

Always true: an object is never changed after it was put; an object that `put_if_absent` answered for (WRITTEN, MINE)
outlives a power failure. Never: locks, lists in a hot path, retries.
"""
