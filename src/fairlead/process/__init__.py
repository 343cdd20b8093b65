"""What a process of Fairlead asks of its machine: log lines, Ctrl-C, memory, open files, children, its parent's end,
its user, the secret of a server's start."""
