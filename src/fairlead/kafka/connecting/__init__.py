"""Connections to brokers, and how they begin.

    brokers.py      where the brokers are; a shared connection to each, others for whoever asks
    entering.py     how a connection begins: by one of the addresses that a name stands for
    connection.py   one connection: frames out, answers in by their number
    versions.py     which version of each API is spoken
    identity.py     whom we trust and who we are, as of now, put together for each connection
    tls.py, keystores.py   contexts of TLS, made of PEM, PKCS12 and JKS
    sasl.py, scram.py, tokens.py, kerberos.py   what is said, by mechanism

In: requests. Out: answers as they came. Always true: nothing is asked before the broker knows us and we know it, nor
while we say it again.
"""
