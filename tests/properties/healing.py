"""What is checked of a world while it plays, and when all faults have ended."""

from __future__ import annotations

from collections.abc import Iterable

from tests.properties import bounds, invariants
from tests.properties.links import Links
from tests.properties.model import Site
from tests.properties.naming import who_waits_for_a_name_waits_for_another_topic
from tests.properties.recovered import a_log_says_at_once_what_it_says_again, a_log_says_the_same_again
from tests.properties.shape import Link
from tests.properties.sites import World

from fairlead.streamlog.frames.codec import decode_frame

STEPS_MAX = 12
"""Of side copies: a crash may come between two of them."""
DECISIONS_MAX = 12
"""What gets a name may take that of another topic at the next site."""
ROUNDS_MAX = 24
"""A row goes over one link a round, and eight sites lie in a line; then tombstones and repairs follow."""


def check_what_changed(world: World, links: Links) -> None:
    """At every step: what the last one touched."""
    moved = [site for site in world.sites.values() if site.changed or site.checked != site.log.announced.end]
    for site in moved:
        a_log_says_at_once_what_it_says_again(site)
        world.on_checked(site)
        site.checked = site.log.announced.end
    _check_sites(world, moved)
    for link, wire_id in links.wire_ids.items():
        slices = world.sites[link.target].shown.moved.pop(wire_id, ())
        if slices and links.knows_history(link):
            passing = world.shape.filter_of(link)
            invariants.nothing_below_a_position_is_missing(world.model, link, wire_id, slices, passing)
            bounds.a_deletion_below_a_position_is_known(world.model, world.shape, link, wire_id, slices)
            invariants.a_position_is_not_ahead(world.model, link, wire_id)
            invariants.a_conflict_has_a_cause(world.model, link, wire_id)
            invariants.nothing_waits_that_gets_a_name_by_itself(world.model, link, wire_id)
            destination = world.sites[link.target]
            who_waits_for_a_name_waits_for_another_topic(destination, destination.log.announced.state)


def check_all(world: World, links: Links) -> None:
    """Everything that must hold at any moment. No call fails from now on."""
    for site in world.sites.values():
        site.storage.faults.clear()
        a_log_says_the_same_again(site)
        world.on_checked(site)
    _check_sites(world, world.sites.values())
    for link, wire_id in links.wire_ids.items():
        if links.knows_history(link):
            passing = world.shape.filter_of(link)
            invariants.nothing_below_a_position_is_missing(world.model, link, wire_id, world.slices, passing)
            bounds.a_deletion_below_a_position_is_known(world.model, world.shape, link, wire_id, world.slices)
            invariants.a_position_is_not_ahead(world.model, link, wire_id)
            invariants.a_conflict_has_a_cause(world.model, link, wire_id)


def _check_sites(world: World, sites: Iterable[Site]) -> None:
    for site in sites:
        with site.storage.faults.held_off():
            invariants.live_rows_are_a_path_of_the_tree(world.model, site)
        invariants.what_was_acknowledged_is_held(world.model, site)
        invariants.a_topic_comes_by_its_links(world.model, world.shape, site)
        invariants.a_name_is_for_one_incarnation(site)
        who_waits_for_a_name_waits_for_another_topic(site, site.log.announced.state)
        site.changed = False


def heal(world: World, links: Links) -> None:
    """Faults end, links go on: all come to one history, and then nothing happens any more."""
    links.calm = True
    for site in world.sites.values():
        site.storage.faults.clear()
    for link in links.with_sides():
        links.heal(link)
        if not links.knows_history(link):
            links.rescan(link)
    world.on_healing()
    _let_topics_in(links)
    _flow_until_nothing_moves(world, links)
    check_all(world, links)
    _copy_tails(world, links)
    _let_people_decide(world, links)
    check_all(world, links)
    invariants.all_sites_agree(world.model, world.shape, links.wire_ids)
    bounds.conflicts_have_ended(world.model, world.shape, links.wire_ids)
    world.on_healed()
    _idle(world, links)


def _copy_tails(world: World, links: Links) -> None:
    """Where a source hears of an owner only once it has sent something, it cuts its log after others have copied."""
    for _ in range(STEPS_MAX):
        for site in world.sites.values():
            world.copy_kept(site.name)
        _flow_until_nothing_moves(world, links)
        if not any(site.log.announced.state.kept_partitions for site in world.sites.values()):
            return


def _let_people_decide(world: World, links: Links) -> None:
    """What waits for a name gets one, until nothing does."""
    for _ in range(DECISIONS_MAX):
        if not world.on_undecided():
            return
        _flow_until_nothing_moves(world, links)
    raise AssertionError("people decide and decide")


def _let_topics_in(links: Links) -> None:
    """Side copies come to their ends."""
    for _ in range(STEPS_MAX):
        for link in links.widened:
            links.step(link)
            for each in links.with_sides():
                if (each.source, each.target) == (link.source, link.target):
                    links.flow(each)
    assert not links.widened, f"topics never come into {links.widened}"


def _flow_until_nothing_moves(world: World, links: Links) -> None:
    flowed: dict[Link, tuple[int, int]] = {}
    for _ in range(ROUNDS_MAX):
        moved = [link for link in world.shape.links if flowed.get(link) != _ends(world, link)]
        if not moved:
            return
        for link in moved:
            links.flow(link)
            flowed[link] = _ends(world, link)
    raise AssertionError(f"after {ROUNDS_MAX} rounds rows still go over links")


def _ends(world: World, link: Link) -> tuple[int, int]:
    return world.sites[link.source].log.announced.end, world.sites[link.target].log.announced.end


def _idle(world: World, links: Links) -> None:
    """Nothing is said that is known: no link carries a row and no site writes a commit. A second round would be the
    same as the first."""
    ends = {link: _ends(world, link) for link in world.shape.links}
    for link in world.shape.links:
        links.send(link, world.slices, 0, None, new_run=True)
        for data in links.frames_in_flight(link):
            assert not decode_frame(data).rows, f"{link}: rows go over an idle link"
        links.deliver(link, 0, len(links.frames_in_flight(link)), keep=False, damage=False)
    assert {link: _ends(world, link) for link in world.shape.links} == ends, "an idle site writes commits"
