"""Commands that ask two clusters: `stream replica autosetup`, `copystream`, and `stream create` with the settings of a
stream elsewhere. A server sends no call on to another one.

In: two streams. Out: what was made at each cluster, in steps that are taken back where a later one fails; how far a
copy is.

    steps.py        what all of them share: paths with their clusters, settings, steps
    set_up.py       the steps of `autosetup`; outlook.py shows them before
"""
