"""What a person's command line knows of clusters: the table of commands, the address book, calls of REST.

In: the URLs of a cluster, a command of the table. Out: the envelope of its answer. Always true: REST, OpenAPI and the
command line are made from one table. It never reaches past HTTP.
"""
