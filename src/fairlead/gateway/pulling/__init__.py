"""Records that a direct neighbour holds and this cluster lacks, brought from server to server over HTTP.

In: which partitions of which topics. Out: their rows, applied as if a link had brought them. Always true: a stream asks
only those to which it has a link, or which it accepts as an upstream, and is answered only by those that know it so; no
row comes that the neighbour may not bring. It needs no Spark: what is missing are tails, and a site's neighbours may
run none.
"""
