"""`stream topic takeover`: topics whose owner is lost are owned by a stream here from then on.

In: which topics. Out: a job; for each batch of it a question to every direct neighbour how the topics stand there, what
they have and we lack brought from them, and a commit that takes over those that may be. Always true: while the owner
answers, or somebody else has become the owner, or a neighbour that answers has more than came here, a topic stays as it
is unless that is forced. Offsets and epochs are no business of this package (`streamlog/requests/ownership.py`).
"""
