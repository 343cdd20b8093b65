"""Actions of several steps: what one at random hardly ever brings about, since all of it must come in one order.

In most of them a site, the `loser`, owns a topic and has written more of it than another one, the `taker`, has got; the
taker takes the topic over, and its row comes to the loser in the middle of something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.properties.actions import MOVES, Action, Play, exchange_all
from tests.properties.lives import TTL_MS
from tests.properties.model import Site
from tests.properties.owners import topics_of
from tests.properties.recovered import a_log_says_the_same_again
from tests.properties.shape import DIVERGED, Link
from tests.streamlog.world import values_at

from fairlead.streamlog.requests.topics import delete_topic, set_configs
from fairlead.streamlog.rows import Kind as RowKind
from fairlead.streamlog.values import Topic


class Parted(NamedTuple):
    """Two sites with a topic, of which the loser, its owner, has more."""

    loser: Site
    taker: Site
    news: Link
    """From the taker to the loser."""
    topic: Topic
    """As the loser knows it."""


def written(play: Play, site: Site, topic: Topic) -> None:
    """Its owner writes to a topic, more or less."""
    for _ in range(play.choose.randint(1, 3)):
        play.owners.produce(site, topic, play.choose)


def owned_at(play: Play, site: Site) -> Topic | None:
    """A topic of the site; if it has none, it takes one that it holds."""
    if not topics_of(site, owned=True):
        others = topics_of(site, owned=False)
        if others:
            play.owners.take_over(site, play.choose.choice(others), play.choose)
    topics = topics_of(site, owned=True)
    return play.choose.choice(topics) if topics else None


def parted(play: Play) -> Parted | None:
    """Two sites of which one has more of a topic that it owns."""
    news = play.link()
    back = [link for link in play.world.shape.links if (link.source, link.target) == (news.target, news.source)]
    loser, taker = play.world.sites[news.target], play.world.sites[news.source]
    topic = owned_at(play, loser)
    if topic is None or not back:
        return None
    written(play, loser, topic)
    play.links.exchange(back[0])
    written(play, loser, topic)
    return Parted(loser, taker, news, topic)


def taken(play: Play, taker: Site, topic: Topic) -> None:
    """A site takes the topic over, if it has it, and writes to it."""
    held = taker.log.announced.state.by_incarnation(topic.incarnation)
    if held is not None and held.owner != taker.stream_id:
        play.owners.take_over(taker, held, play.choose)
        written(play, taker, held)


def of_two(story: Callable[[Play, Parted], None]) -> Callable[[Play], None]:
    """What happens once a site has more of its topic than another one that takes it."""

    def do(play: Play) -> None:
        found = parted(play)
        if found is not None:
            story(play, found)

    return do


def cut_and_age(play: Play, two: Parted) -> None:
    """All expires that stands before and behind a cut, and is merged at once."""
    name = two.loser.name
    taken(play, two.taker, two.topic)
    play.links.exchange(two.news)
    if play.choose.random() < 0.7:
        play.world.copy_kept(name)
    play.world.pass_time(name, 3 * TTL_MS)
    for _ in range(3):
        play.world.merge(name)
        a_log_says_the_same_again(two.loser)


def expire_and_cut(play: Play, two: Parted) -> None:
    """Records expire by their topic's own setting, and before they are merged others come in their place."""
    name = two.loser.name
    play.world.run(two.loser, lambda d: set_configs(d, two.topic.name, {"retention.bytes": "0"}))
    for _ in range(2):
        play.world.pass_time(name, 50)
        play.world.expire_topics(name)
    taken(play, two.taker, two.topic)
    play.links.exchange(two.news)
    for _ in range(3):
        play.world.merge(name)
    nothing_is_gone_too_early(two)


def nothing_is_gone_too_early(two: Parted) -> None:
    """What the taker has written a moment ago has expired nowhere, unless its row limits the topic too."""
    copies = [site.log.announced.state.by_incarnation(two.topic.incarnation) for site in (two.taker, two.loser)]
    theirs, ours = copies
    if theirs is None or ours is None or theirs.epoch != ours.epoch or theirs.configs:
        return
    for partition, (first, _) in enumerate(theirs.since):
        with two.loser.storage.faults.held_off(), two.taker.storage.faults.held_off():
            written_there = values_at(two.taker.log, theirs.number, partition)
            found = values_at(two.loser.log, ours.number, partition)
        end = two.loser.log.announced.state.partition(ours.number, partition).end
        gone = {at for at in written_there if first <= at < end} - found.keys()
        assert not gone, f"{two.loser.name}: {sorted(gone)} of {ours.name} have expired too early"


def merge_over_a_cut(play: Play, two: Parted) -> None:
    """What has expired is merged, and before that is installed others come in its place."""
    name = two.loser.name
    play.world.pass_time(name, 3 * TTL_MS)
    play.world.merge(name, later=True)
    taken(play, two.taker, two.topic)
    play.links.exchange(two.news)
    play.world.merge(name)


def both_delete(play: Play, two: Parted) -> None:
    """The owner of before deletes a topic, and so does its successor."""
    taken(play, two.taker, two.topic)
    play.owners.delete(two.loser, two.topic, play.choose)
    held = two.taker.log.announced.state.by_incarnation(two.topic.incarnation)
    if held is not None and held.owner == two.taker.stream_id:
        play.owners.delete(two.taker, held, play.choose)
    play.links.exchange(two.news)


def news_is_harmed(play: Play, two: Parted) -> None:
    """Of what the new owner sends, the row that says so does not hold together."""
    taken(play, two.taker, two.topic)
    held = two.taker.log.announced.state.by_incarnation(two.topic.incarnation)
    if held is not None and play.choose.random() < 0.5:
        play.owners.delete_records(two.taker, held, play.choose)
    if play.choose.random() < 0.5:
        play.world.pass_time(two.taker.name, 3 * TTL_MS)
        play.world.merge(two.taker.name)
    with harmed(play, RowKind.TOPIC):
        play.links.bring(two.news, damage=True)


def third(play: Play, loser: Site, taker: Site) -> tuple[Site, Link, Link] | None:
    """Another site, and links to it from both."""
    links = {(link.source, link.target): link for link in play.world.shape.links}
    names = [name for name in play.world.shape.sites if (loser.name, name) in links and (taker.name, name) in links]
    if not names:
        return None
    name = play.choose.choice(names)
    return play.world.sites[name], links[loser.name, name], links[taker.name, name]


def meet(play: Play, two: Parted) -> None:
    """What the owner of before sends and what its successor does come to a third site at the same moment, perhaps
    twice, and what it has then is merged and goes on."""
    found = third(play, two.loser, two.taker)
    if found is not None:
        taken(play, two.taker, two.topic)
        play.links.meet(play.choose.sample(found[1:], 2), again=play.choose.random() < 0.5)
        if play.choose.random() < 0.5:
            play.world.merge(found[0].name)
        exchange_all(play, out_of=found[0].name)


def gap_and_cut(play: Play, two: Parted) -> None:
    """A third site has a gap where all had expired at the owner, and its successor has some of that."""
    found = third(play, two.loser, two.taker)
    if found is None:
        return
    _, from_loser, from_taker = found
    back = [link for link in play.world.shape.links if (link.source, link.target) == (two.loser.name, two.taker.name)]
    if play.choose.random() < 0.8:
        play.links.exchange(back[0])
        written(play, two.loser, two.topic)
    play.world.pass_time(two.loser.name, 3 * TTL_MS)
    for _ in range(2):
        play.world.merge(two.loser.name)
    play.links.exchange(from_loser)
    taken(play, two.taker, two.topic)
    play.links.exchange(from_taker)


def two_copy(play: Play, two: Parted) -> None:
    """Two sites hold a tail. One copies it; the other does when that copy comes, or when it was deleted."""
    found = third(play, two.loser, two.taker)
    if found is None:
        return
    other, from_loser, from_taker = found
    play.links.exchange(from_loser)
    taken(play, two.taker, two.topic)
    play.links.exchange(two.news)
    play.links.exchange(from_taker)
    play.world.copy_kept(two.loser.name)
    if play.choose.random() < 0.5:
        for topic in two.loser.log.announced.state.topics():
            if DIVERGED in topic.name and topic.owner == two.loser.stream_id:
                play.world.run(two.loser, lambda d, name=topic.name: delete_topic(d, name))  # type: ignore[misc]
    with copies_meanwhile(play):
        play.links.exchange(from_loser)
    play.world.copy_kept(other.name)


def both_take(play: Play, two: Parted) -> None:
    """Two sites take a topic over that have not heard of each other, and by chance their epochs are the same one."""
    held = two.taker.log.announced.state.by_incarnation(two.topic.incarnation)
    if held is None or held.epoch != two.topic.epoch:
        return
    play.world.model.of_one_class.add(two.topic.incarnation)
    writer = two.taker.log.epoch.id
    for site, topic in ((two.taker, held), (two.loser, two.topic)):
        play.owners.take_over(site, topic, play.choose, writer=writer)
        if play.choose.random() < 0.7:
            play.owners.limit(site, topic, play.choose)
        written(play, site, topic)
    play.links.exchange(two.news)


def back_in_a_batch(play: Play, two: Parted) -> None:
    """An owner is put back to its backup and writes shorter batches than before, so that its next epoch begins within
    one that another site has."""
    back = [link for link in play.world.shape.links if (link.source, link.target) == (two.loser.name, two.taker.name)]
    play.world.back_up(two.loser.name)
    for _ in range(2):
        play.owners.produce(two.loser, two.topic, play.choose)
    play.links.exchange(back[0])
    play.world.roll_back(two.loser.name)
    topic = two.loser.log.announced.state.by_incarnation(two.topic.incarnation)
    if topic is not None and topic.owner == two.loser.stream_id:
        for _ in range(play.choose.randint(1, 4)):  # one of before is refused at first
            play.owners.produce(two.loser, topic, play.choose)
        play.owners.take_over(two.loser, topic, play.choose)
        written(play, two.loser, topic)
        play.links.rescan(back[0])
        play.links.exchange(back[0])


@contextmanager
def harmed(play: Play, kind: RowKind) -> Iterator[None]:
    """Meanwhile only rows of that kind are."""
    before, play.links.harmed = play.links.harmed, (kind,)
    yield
    play.links.harmed = before


@contextmanager
def copies_meanwhile(play: Play) -> Iterator[None]:
    """Meanwhile tails are copied where frames arrive."""
    before, play.links.copies_meanwhile = play.links.copies_meanwhile, True
    yield
    play.links.copies_meanwhile = before


STORIES = MOVES._replace(
    steps=40,
    actions=[
        *MOVES.actions,
        Action("cut and age", 3, of_two(cut_and_age)),
        Action("expire and cut", 3, of_two(expire_and_cut)),
        Action("merge over a cut", 3, of_two(merge_over_a_cut)),
        Action("both delete", 1, of_two(both_delete)),
        Action("news is harmed", 3, of_two(news_is_harmed)),
        Action("meet", 3, of_two(meet)),
        Action("gap and cut", 3, of_two(gap_and_cut)),
        Action("two copy", 3, of_two(two_copy)),
    ],
    weights={**MOVES.weights, "take a topic": 0.3, "take from another": 1, "ask and take": 1, "fault": 0.5},
    commit_bytes=8000,
)
"""Owners change in the middle of something."""
RARE = STORIES._replace(
    steps=10,
    actions=[
        *(action._replace(weight=1) for action in STORIES.actions if action.name in {"create", "produce", "exchange"}),
        Action("both take", 2, of_two(both_take)),
        Action("back in a batch", 2, of_two(back_in_a_batch)),
    ],
    weights={},
)
"""What one takeover of 2,048 brings about, and a restored owner that nobody has noticed: what comes of it is for people
to settle, so that not every such world comes to one history by itself. Played only with rules that are switched off."""
_FEW = {"create", "produce", "exchange", "flow", "copy", "merge", "hand over", "take over", "reopen"}
COPIED = STORIES._replace(
    steps=25,
    actions=[
        *(action._replace(weight=1) for action in STORIES.actions if action.name in _FEW),
        Action("two copy", 8, of_two(two_copy)),
    ],
    weights={},
)
"""Most of what happens is that two holders of a tail copy it."""
