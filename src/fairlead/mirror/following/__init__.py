"""What of a topic follows the source: that it is there, its partitions, its settings, and who may read it.

    topics.py       topics and partitions that are not there yet
    settings.py     settings that differ; acls.py: access rules that the destination lacks

In: what both clusters say of topics that are mirrored. Out: changes at the destination. Always true: what the
destination refuses is told by name, and ends nothing.
"""
