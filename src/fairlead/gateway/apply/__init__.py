"""The destination's side of links: may this source bring its frames, and the connections by which they come.

In: requests of other clusters' sinks on /gateway. Out: frames to the replica's shards, cumulative answers back. Always
true: data flows only if the replica names its upstream; an answer is sent once what it speaks of is durable. It never
asks the source.
"""
