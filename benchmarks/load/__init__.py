"""The clients of the benchmarks: programs of their own that load a server and account for every record."""
