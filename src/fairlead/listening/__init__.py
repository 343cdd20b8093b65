"""A listener of HTTP: its address, who may call at all, and uvicorn in the process's own event loop.

    addresses.py   who can reach an address; sockets
    guard.py       which calls are let in, by their heads, and with how much
    protocol.py    uvicorn's protocol, with as many connections as the guard allows and heads within their time
    http.py        the listener
    errors.py      what an application answers where it fails

In: an application and an address. Out: its answers. Always true: the guard sees each call before the application does.
It does not know what is served.
"""
