"""What people do about names: topics of one name at several sites, new names, prefixes, aliases. Each method is one
action."""

from __future__ import annotations

from functools import partial
from random import Random

from tests.properties.links import Links
from tests.properties.model import Site
from tests.properties.naming import nobody_waits_who_has_a_name
from tests.properties.owners import topics_of
from tests.properties.shape import SHARED, Link, names_of
from tests.properties.sites import World

from fairlead.model.names import TOPIC_NAME_LENGTH_MAX
from fairlead.streamlog.payloads import TopicPayload
from fairlead.streamlog.requests.ownership import hand_over, take_over
from fairlead.streamlog.requests.topics import create_topic, rename_topic, take_as
from fairlead.streamlog.state.effects import Note, NoteKey
from fairlead.streamlog.values import DELETED_HERE, Topic

PREFIXES = ("", "p.", "q.")
LONG = "l" * (TOPIC_NAME_LENGTH_MAX - 1)
"""Too long behind a prefix."""
TAKEN = (SHARED, SHARED, f"p.{SHARED}", f"q.p.{SHARED}", "boats")
"""What any site may call a topic: the name of another one, or what that becomes elsewhere."""


class Names:
    """Of one world."""

    def __init__(self, world: World, links: Links) -> None:
        self._world = world
        self._links = links
        self.count = 0
        """Of new names so far."""
        self._renamed: set[bytes] = set()

    def begin(self, choose: Random) -> None:
        """Some links have a prefix, some sites give names by themselves, and all have a topic of one name."""
        shape = self._world.shape
        some = choose.choice([0, 0.3, 0.8])
        for link in shape.links:
            if choose.random() < some:
                shape.prefixes[link] = [choose.choice(PREFIXES[1:])]
        shape.aliasing.update(site for site in shape.sites if choose.random() < 0.15)
        self._world.model.given.aliasing |= shape.aliasing
        for site in self._world.sites.values():
            self._world.run(site, lambda d, at=site.path: create_topic(d, SHARED, owner_at=at))  # type: ignore[misc]

    def create(self, site: Site, choose: Random) -> None:
        """A topic is made, by a name that others may use too."""
        name = self._some_name(site, choose)
        if site.log.announced.state.by_name(name) is None:
            partitions = choose.choice([1, 1, 2])
            self._world.run(site, lambda d: create_topic(d, name, partitions, owner_at=site.path))

    def hand_over(self, site: Site, choose: Random) -> None:
        """An owner gives a topic to a neighbour that has it, over a link that brings it."""
        topics = topics_of(site, owned=True)
        if not topics:
            return
        topic, shape = choose.choice(topics), self._world.shape
        brings = self._world.model.brings(topic.incarnation)
        ways = [link for link in shape.links if link.source == site.name and link.forward == "all" and brings(link)]
        near = [link.target for link in ways if link.target in shape.neighbours(site.name)]
        near = [each for each in near if self._holds(each, topic)]
        if near:
            to = self._world.sites[choose.choice(near)]
            self._world.note("hand over", site.name, topic.name, to.name)
            at = site.log.epoch.id
            self._world.run(
                site,
                partial(hand_over, topic=topic.number, to=to.stream_id, owner_at=to.path, writer_epoch_id=at),
            )

    def _holds(self, site: str, topic: Topic) -> bool:
        return self._world.sites[site].log.announced.state.by_incarnation(topic.incarnation) is not None

    def take_too_early(self, site: Site, choose: Random) -> None:
        """A site takes a topic over of which nothing has come yet: all that its owner has written is cut off."""
        state = site.log.announced.state
        topics = [each for each in topics_of(site, owned=False) if not state.partition(each.number, 0).end]
        if topics:
            topic, at = choose.choice(topics), site.log.epoch.id
            self._world.note("take too early", site.name, topic.name)
            self._world.run(site, partial(take_over, topic=topic.number, owner_at=site.path, writer_epoch_id=at))

    def rename(self, site: Site, choose: Random) -> None:
        """An owner gives a topic another name."""
        topics = topics_of(site, owned=True)
        if topics:
            topic, to = choose.choice(topics), self._some_name(site, choose)
            self._world.note("rename", site.name, topic.name, to)
            self._world.run(site, partial(rename_topic, name=topic.name, to=to))

    def take_as(self, site: Site, choose: Random) -> None:
        """Somebody gives a topic a name that waits at a site for one."""
        waiting = self._waiting(site)
        if waiting:
            name = choose.choice(waiting).name
            self._take(site, name, choose.choice([self._new_name(), self._some_name(site, choose)]))

    def alias(self, site: Site) -> None:
        """A site begins to give names by itself, or ends it."""
        self._world.note("alias", site.name)
        self._world.model.given.aliasing.discard(site.name)
        self._world.shape.aliasing.symmetric_difference_update(site.name)

    def prefix(self, link: Link, choose: Random) -> None:
        """A link puts another prefix before names; frames that are under way have the old one."""
        prefix = choose.choice(PREFIXES)
        self._world.note("prefix", str(link), prefix)
        self._links.lose_connection(link)
        self._world.shape.prefixes.setdefault(link, [""]).append(prefix)

    def decide(self) -> bool:
        """People end all conflicts, each site's by itself, or by another name from the owner; whether there was any."""
        choose, found = self._world.random, False
        for site in self._world.sites.values():
            nobody_waits_who_has_a_name(site, site.log.announced.state)
        for site in self._world.sites.values():
            for create in self._waiting(site):
                found = True
                owner = self._owner_of(create)
                if (
                    owner is not None
                    and not create.ext
                    and create.incarnation not in self._renamed
                    and choose.random() < 0.5
                ):
                    self._renamed.add(create.incarnation)  # once: a link may leave it out by that name
                    self._world.run(owner[0], partial(rename_topic, name=owner[1].name, to=self._new_name()))
                elif create in self._waiting(site):
                    self._take(site, create.name, self._new_name())
        if not found:
            self._world.model.decided = True
        return found

    def _take(self, site: Site, name: str, to: str) -> None:
        self._world.note("take as", site.name, name, to)
        self._world.model.given.chosen.add(to)
        notes = [note for _, note in self._notes(site) if note.create and note.create.name == name]
        since = min((note.behind.noted_at for note in notes), default=0)
        longest = {note.behind.incarnation for note in notes if note.behind.noted_at == since}
        taken = self._world.run(site, partial(take_as, name=name, to=to))
        assert not isinstance(taken, Topic) or taken.incarnation in longest, (
            f"{site.name}: {taken} has waited too short"
        )

    def _some_name(self, site: Site, choose: Random) -> str:
        if choose.random() < 0.03:
            return LONG
        return choose.choice([*TAKEN, *names_of(site.name, 2)])

    def _new_name(self) -> str:
        """One that nobody has."""
        self.count += 1
        return f"n{self.count}"

    def _waiting(self, site: Site) -> list[TopicPayload]:
        """What waits for a name there."""
        creates = [note.create for _, note in self._notes(site) if note.create]
        found = {create.incarnation: create for create in creates}
        return [found[incarnation] for incarnation in sorted(found)]

    def _notes(self, site: Site) -> list[tuple[NoteKey, Note]]:
        """Of what waits there for a name, and others; not of what was deleted there."""
        notes = site.log.announced.state.all_notes().items()
        return [(key, note) for key, note in notes if note.behind.reason != DELETED_HERE]

    def _owner_of(self, create: TopicPayload) -> tuple[Site, Topic] | None:
        for site in self._world.sites.values():
            topic = site.log.announced.state.by_incarnation(create.incarnation)
            if topic is not None and topic.owner == site.stream_id:
                return site, topic
        return None
