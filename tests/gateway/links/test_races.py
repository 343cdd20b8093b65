"""What happens while something else is under way: a contact in flight, a copy that begins or ends."""

from __future__ import annotations

import pytest
from tests.gateway.links.destination import ANOTHER, ANSWER, REPLICA, SHIPS, URLS, Destination, source
from tests.gateway.rig import until

from fairlead.model.errors import NotAllowed, StorageUnavailable


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


async def test_a_failed_copy_ends_also_when_its_end_cannot_be_written_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for it is told, once the disk takes it."""
    destination = Destination([NotAllowed("not here")])
    async with source(destination) as sf:
        remove, failures = sf.cluster.links.remove, [StorageUnavailable("the disk is away")]

        async def remove_later(link: bytes) -> None:
            if failures:
                raise failures.pop()
            await remove(link)

        monkeypatch.setattr(sf.cluster.links, "remove", remove_later)
        await sf.links.copystream(SHIPS, REPLICA, URLS)
        await until(lambda: sf.links.copy_status(SHIPS, REPLICA)["state"] == "failed")
        assert sf.links.copy_status(SHIPS, REPLICA)["error"] == "not here"
        assert sf.cluster.links.all() == []
