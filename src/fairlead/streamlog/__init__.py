"""The log of a stream: rows, files, the writer, readers, applying frames, merging, recovery.

In: requests that add rows (produce, topics, cursors, frames of other sites), storage, clocks, ids. Out: announced
commits, batches by offset, objects for readers. Always true: what was answered is durable; state is what replaying the
announced log gives; no name of an object is used twice; whatever is missing in a replica is noted. It opens no socket,
knows no path of a stream and no user.

    rows, values, payloads      what is stored and handed out          frames, frames_codec    what goes over a link
    format, layout, manifest    bytes of objects                       reader                  rows out of objects
    state, tables, producers    what a shard knows                     effects                 what a row does
    draft, overlay              a commit while it is made              produce, topics, cursors, entries, apply…
    opening, recovery           from storage to a running log          writer, sealed, views   the log
    shard                       the log under asyncio
    index, fetch                where batches are                      merge…, upkeep          segments
    retention                   clocks that jump                       checkpoint, snapshot    shortcuts past the replay
"""
