"""The admin interface: `/rest/<noun>/<verb>`, a file per noun; `handlers.py` is their table.

In: parameters that `command.py` has checked. Out: rows for the envelope. Always true: what an answer says is durable;
a GET changes nothing. A call that names a stream of another cluster is sent on to that cluster, once.
"""
