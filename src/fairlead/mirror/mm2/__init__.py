"""`--mm2.config`: MirrorMaker 2's property file, as flows of this program.

    keys.py      what becomes of each key that MirrorMaker 2 knows
    file.py      the file: its clusters, and which entries count for a cluster or a flow
    config.py    its flows, with the options and the settings of clients that follow

In: a file and what the command line says beside it. Out: flows, warnings that name keys. Always true: a key that would
change what is mirrored and cannot be honoured is an error that names what to use instead; one that has no meaning here
is a warning.
"""
