"""What of a topic follows the source after it was made: its settings, and who may read it.

    settings.py     settings that differ; acls.py: access rules that the destination lacks

In: what both clusters say of topics that are mirrored. Out: changes at the destination. Always true: what the
destination refuses is told once, by name, and ends nothing.
"""
