"""Questions to a cluster that end with an answer: each goes to the broker that has it, and is asked again until then.

    metadata.py     who leads what; seeking.py: what lost its leader, until metadata knows another one
    offsets.py, groups.py     where partitions begin and end; groups and their commits
    admin.py, acls.py         topics and their settings; who may do what with them
    retrying.py     asking again, with pauses

In: names of topics, partitions and groups. Out: what the cluster says of them. Always true: what is refused is raised
at once, what passes is asked again until `request_timeout_ms` is over.
"""
