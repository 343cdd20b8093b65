"""What a mirror is going to do with the topics of one source, before it does it.

    plan          which topics go where, and where each partition begins
    beginning     where those begin of which the books know nothing, asked of the clusters
    returning     topics that are the destination's own

In: what both clusters say of their topics, options, the books. Out: a plan, which `--dry-run` shows. Never: changes
anything.
"""
