"""What the numbers of a partition say of each other, and what a link has told once it has nothing more to tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.properties.model import Model, Site
from tests.properties.shape import IDS, Link, Shape, lets_by

from fairlead.streamlog.values import HARMED, PartitionState, Topic


def a_partition_is_what_can_be(
    site: Site, topic: Topic, state: PartitionState, found: Mapping[int, bytes | None]
) -> None:
    """2: it begins at or below its end, no record stands above that, and no epoch is newer than the topic's."""
    assert state.start <= state.end, f"{site.name}: {topic.name} begins above its end: {state}"
    assert max(found, default=-1) < state.end, f"{site.name}: {topic.name} ends at {state.end}, and has {max(found)}"
    assert state.epoch <= topic.epoch, f"{site.name}: {topic} is written by an owner that it does not know: {state}"


def a_deletion_below_a_position_is_known(
    model: Model, shape: Shape, link: Link, wire_id: bytes, slices: Iterable[int]
) -> None:
    """6: whose position has passed a deletion, remembers it, has the topic from a later owner than deleted it, or has
    noted that a row of it came damaged."""
    source, destination = model.sites[link.source], model.sites[link.target]
    state = destination.log.announced.state
    positions = {slice_: at.commit for (_, slice_), at in state.positions(wire_id).items() if slice_ in slices}
    for each in source.shown.log.buried:
        if each.commit >= positions.get(each.slice, 0) or IDS[link.target] in {each.origin, each.via}:
            continue
        if link.peer == "partner" or (link.forward == "own" and each.via is not None) or shape.filters:
            continue
        known, tombstone = state.by_incarnation(each.incarnation), state.tombstone(each.incarnation)
        is_known = known is not None and known.epoch > each.epoch
        is_known |= tombstone is not None and tombstone.epoch >= each.epoch
        note = state.note((wire_id, each.incarnation, 0))
        is_known |= note is not None and note.behind.reason == HARMED
        is_known |= (each.incarnation, destination.name) in model.yielded_at  # what it was there says nothing any more
        assert is_known or model.has_contested_name(each.incarnation), f"{link}: the position skipped {each}: {known}"


def conflicts_have_ended(model: Model, shape: Shape, wire_ids: Mapping[Link, bytes]) -> None:
    """After healing, 10: no topic is set aside on the link that has brought the owner whom both of its ends know. (What
    an answer has told of owners ends no conflict of a link that comes from there as a partner's.)"""
    told = {(link.target, link.source) for link in shape.links if link.peer == "own"}
    for link, wire_id in wire_ids.items():
        if (link.source, link.target) in told:
            continue
        source, destination = model.sites[link.source], model.sites[link.target]
        for each in (note.behind for note in destination.log.announced.state.notes(wire_id).values()):
            sent = source.log.announced.state.by_incarnation(each.incarnation)
            known = destination.log.announced.state.by_incarnation(each.incarnation)
            if sent is None or known is None or not lets_by(shape.filter_of(link), each.topic):
                continue
            if model.contested(each.topic) or each.incarnation in model.rolled_back or each.incarnation in model.tails:
                continue
            is_one = (sent.owner, sent.epoch, sent.version) == (known.owner, known.epoch, known.version)
            came_by_it = destination.shown.log.brought.get(each.incarnation) == source.stream_id
            ended = is_one and came_by_it and sent.owner == source.stream_id and sent.epoch > 0
            assert not (ended and each.conflict), f"{link}: {each} although it brought {known}"
