"""The command line: a file per noun; rooms for commands that run as jobs, and for those that ask two clusters.

In: arguments in the original's style (`-path` and `--path`, names in any case). Out: a table, or the server's envelope
with `-json`; an error is one line on standard error and an exit code: 1 the command failed, 2 it was called wrongly,
70 a bug, 130 ended by Ctrl-C. Always true: no command but `up`, `server` and `replicator` imports the server or Spark,
and none imports another one.
"""
