"""A link and its destination: they agree at contact, and what follows from that.

    contact_loop    the loop of one link
    contacts        what a destination's answer means
    copies · failures   how a link ends, or fails
    widening        topics that come into a link while it runs

In: what destinations answer. Out: grants, events of links, side copies. Always true: a link waits for nobody else's
destination.
"""
