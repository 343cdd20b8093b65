"""What clusters and the processes of one cluster say to each other: messages, their JSON, frames on a connection;
at which URL of a cluster, and how long they wait.

In: frozen values, encoded frames, bytes of a socket. Out: bytes, and the same back, read strictly. Always true: a field
that is missing, unknown or of another type is an error that names it; nothing is read ahead of what is taken. It never
knows a cluster, a log or Spark.
"""
