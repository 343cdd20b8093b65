"""How links are: what is wrong with one, since when, what mends it, and what is shown of it.

In: links and what runs them, looked at when somebody asks. Out: errors, commands that mend, rows of `replica list`. It
changes nothing.
"""
