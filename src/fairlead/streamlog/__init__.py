"""The log of a stream: rows, files, the writer, readers, applying frames, merging, recovery.

In: requests that add rows (produce, topics, cursors, frames of other sites), storage, clocks, ids. Out: announced
commits, batches by offset, objects for readers. Always true: what was answered is durable; state is what replaying the
announced log gives; no name of an object is used twice; whatever is missing in a replica is noted. It opens no socket
and knows neither users nor the paths of streams.

    rows, numbers, values, payloads   what is stored and handed out; imports nothing else of this room

    objects/    bytes of objects: commits and segments, manifests, checkpoints; opening a log
    frames/     what goes over a link
    state/      what a shard knows, and what a row does to it
    reading/    rows out of objects, batches by offset, the newest of them from memory
    merging/    commits become segments: what to merge, what stays, the process that does it
    writing/    a commit while it is made, the log and the one way in which it grows, its upkeep
    applying/   rows of another site's log become rows here
    fsck        checks every object of a directory

Each of these imports only what stands above it (merging and frames know nothing of each other).
"""
