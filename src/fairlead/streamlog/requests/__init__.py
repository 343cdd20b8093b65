"""What a request writes into the draft of a commit: one module for each thing that a request is about.

In: a draft and what is asked. Out: rows in the draft, or an error that leaves it as it was. Always true: who may write
is decided here, on the state that the draft shows; a row decides nothing when it is replayed.
"""
