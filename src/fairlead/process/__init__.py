"""What a process of Fairlead asks of its machine: log lines, memory, open files, and to end with its parent."""
