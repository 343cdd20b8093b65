"""Named immutable objects and one primitive, put-if-absent; knows nothing of what the objects mean.

    interface   what a storage must do, and the outcomes of a put
    names       every object name, built and parsed
    identity    what cluster.json says
    lock        one server at a time
    local       a directory: temporary file, fdatasync, link, fsync of the directories
    packs       small objects of a directory side by side in one file
    memory      for tests: loses what was not synced, fails where it is told to

Always true: an object is never changed after it was put; an object that `put_if_absent` answered for (WRITTEN, MINE)
outlives a power failure. Never: lists in a hot path, retries.
"""
