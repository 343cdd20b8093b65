"""What people do with links: `stream replica …`, `stream upstream …`, `copystream …`, `stream topic transfer`.

    commands · copystream · transfer    the commands
    autosetup · naming · chosen         steps of theirs: what is meant, and what is made

In: commands, checked by their catalogue. Out: records of links, changed once everything is durable. Each takes effect
through records; what runs follows them.
"""
