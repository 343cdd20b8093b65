"""What is done with tails beside copying them: they are claimed, their topics deleted, and frames come meanwhile."""

from __future__ import annotations

from random import Random
from typing import cast
from unittest.mock import patch

from tests.properties.model import Site
from tests.properties.owners import Owners
from tests.properties.readers import OneStream
from tests.properties.shape import DIVERGED
from tests.properties.sites import World

from fairlead.cluster import claims
from fairlead.cluster.claims import Claiming, parent
from fairlead.cluster.stream import Stream
from fairlead.streamlog.requests.topics import delete_topic

CLAIMED_BYTES = (1, 150, 4_000_000)


class Tails:
    """Of one world."""

    def __init__(self, world: World, owners: Owners) -> None:
        self._world = world
        self._owners = owners

    def claim(self, site: Site, choose: Random) -> None:
        """The owner of a topic appends what a diverged topic has; and once more, when it has come further."""
        stream = cast(Stream, OneStream(site))
        topics = site.log.announced.state.topics()
        found = [(each, into) for each in topics if (into := parent(stream, each)) and into.owner == site.stream_id]
        if found:
            topic, into = choose.choice(found)
            self._world.note("claim", site.name, topic.name, into.name)
            with patch.object(claims, "CLAIMED_BYTES", choose.choice(CLAIMED_BYTES)):
                self._world.lived(site, Claiming(stream, topic, into).run())

    def delete(self, site: Site, choose: Random) -> None:
        """Nobody wants what a diverged topic has."""
        topics = site.log.announced.state.topics()
        found = [each.name for each in topics if DIVERGED in each.name and each.owner == site.stream_id]
        if found:
            name = choose.choice(found)
            self._world.run(site, lambda d: delete_topic(d, name))
