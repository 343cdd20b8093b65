"""Clients that we did not write, against a server in this process.

Each test is one behaviour; a parametrized `client` is one program or library. `python -m tests.interop.table` runs them
all and prints client x behaviour. `scripts/interop-setup` installs what is not Python.
"""
