"""The cluster itself: what it is, what it offers, and what a cluster of one node need not do."""
