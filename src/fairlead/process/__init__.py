"""What a process of Fairlead asks of its machine: log lines, memory, open files, and its end with its parent."""
