"""How people and Prometheus see a mirror while it runs, and pause it: `--http`.

    looking.py   where the source's partitions end now, and since when each is behind
    status.py    what there is to see of a flow; values
    metrics.py   the same for Prometheus; `fairlead.web` has it as a page
    routes.py    the HTTP application; serving.py: its listener

In: the flows of the process. Out: answers; pause and resume. Always true: a GET changes nothing; a mirror does not
depend on being watched.
"""
