"""What happens while something else is under way: a contact in flight, a copy that begins or ends."""

from __future__ import annotations

from tests.gateway.links.destination import ANOTHER, ANSWER, REPLICA, SHIPS, URLS, Destination, source
from tests.gateway.rig import until


async def test_a_resume_is_heard_though_the_contact_in_flight_stops_the_link() -> None:
    """It was said after the destination had answered what stops the link: the link asks once more."""
    destination = Destination([ANSWER, ANOTHER, ANSWER])
    async with source(destination) as sf:
        await sf.links.add_replica(SHIPS, REPLICA, urls=URLS)
        await until(lambda: destination.contacts == 1)
        destination.open.clear()
        await sf.links.pause(SHIPS, REPLICA)
        await sf.links.resume(SHIPS, REPLICA)
        await until(lambda: destination.contacts == 2)
        await sf.links.resume(SHIPS, REPLICA)
        destination.open.set()
        await until(lambda: destination.contacts == 3)
        await until(lambda: not sf.error())
