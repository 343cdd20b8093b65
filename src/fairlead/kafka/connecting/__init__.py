"""Connections to brokers, and how they begin.

    brokers.py      where the brokers are; a shared connection to each, others for whoever asks
    connection.py   one connection: frames out, answers in by their number
    versions.py     which version of each API is spoken
    tls.py, sasl.py, scram.py   whom we trust, and who we are

In: requests. Out: answers as they came. Always true: nothing is asked before the broker knows us and we know it.
"""
