"""What must hold at any moment, each promise by its number in the design, and what must hold when all is healed.

1 (who may give an offset) is looked at where rows are taken in (`model`), 5 (a log says the same again) in `recovered`,
7 (where groups go on) in `groups`, both with every commit. 9 comes with links that are waited for: there are none of
them yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from tests.properties.bounds import a_partition_is_what_can_be
from tests.properties.model import Model, Place, Seen, Site
from tests.properties.naming import names_are_the_owners
from tests.properties.shape import IDS, Link, Shape, lets_by
from tests.streamlog.world import rows_of, values_at

from fairlead.cluster.topic_filter import LinkTopics
from fairlead.model.names import is_topic_name
from fairlead.streamlog.ownership.standing import pending_partitions
from fairlead.streamlog.ranges import OFFSET_MAX
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import DELETED_HERE, NAME_HELD, NO_NAME_HERE, Behind, PartitionState, Topic


def places_of(site: Site) -> Iterable[tuple[Topic, Place, PartitionState]]:
    """All partitions that a site holds."""
    state = site.log.announced.state
    for topic in state.topics():
        for partition in range(topic.partitions):
            yield topic, (topic.incarnation, partition), state.partition(topic.number, partition)


def live_rows_are_a_path_of_the_tree(model: Model, site: Site) -> None:
    """2 and 3: what can be read at a site is the history of the epoch that it is in, without holes but declared gaps;
    and at its owner nothing is missing of what was acknowledged. After an owner was rolled back and wrote again, nobody
    sees where its history and the next owner's part."""
    for topic, place, state in places_of(site):
        found = values_at(site.log, topic.number, place[1])
        a_partition_is_what_can_be(site, topic, state, found)
        is_torn = place[0] in model.rolled_back and topic.epoch > 0
        assert not found or is_torn or model.is_history(place, state.epoch, found), (
            f"{site.name}: other records in {topic}: {found}"
        )
        gaps = {
            offset
            for gap in site.log.announced.state.gaps_of(topic.number, place[1])
            for offset in range(gap.start, gap.end)
        }
        assert is_torn or place[0] in model.rolled_back or state.deleted_to <= model.deletable_to(place, topic.epoch), (
            f"{site.name}: {topic.name} is deleted to {state.deleted_to}, of which nobody has deleted so much"
        )
        assert gaps.isdisjoint(found), f"{site.name}: {topic.name} has records in its gaps {sorted(gaps & set(found))}"
        missing = set(range(state.log_start, state.end)) - set(found)
        assert missing <= gaps, f"{site.name}: offsets {sorted(missing - gaps)} of {topic.name} are silently missing"
        acknowledged_records_are_at_their_writer(model, site, topic, place, state, found, gaps)
        if topic.owner != site.stream_id:
            a_gap_is_what_was_gone(model, site, place, gaps)


def what_was_acknowledged_is_held(model: Model, site: Site) -> None:
    """3: a site holds every topic in which it has acknowledged a record, until it is deleted."""
    for (incarnation, partition), acked in model.acked.items():
        if {incarnation} & (model.deleted | model.rolled_back) or (incarnation, site.name) in model.deleted_at:
            continue
        if any(model.trees[incarnation, partition][epoch].owner == site.stream_id for epoch, _ in acked):
            held = site.log.announced.state.by_incarnation(incarnation)
            assert held is not None, f"{site.name}: a topic with acknowledged records is gone"


def a_topic_comes_by_its_links(model: Model, shape: Shape, site: Site) -> None:
    """1: from its owner, over links that may bring it; one that keeps what was cut off is made wherever that was."""
    for topic in site.log.announced.state.topics():
        owners = {name for name in shape.sites if IDS[name] in model.owners_of(topic.incarnation)}
        reached = set[str]()
        for incarnation in {topic.incarnation, model.tails.get(topic.incarnation, topic.incarnation)}:
            brought = partial(model.given.may_have_brought, incarnation=incarnation)
            reached |= {name for owner in owners for name in shape.reached_from(owner, lets_by=brought)}
        assert site.name in reached, f"{site.name}: {topic.name} of {owners} may not come here"


def no_gap_is_where_its_sender_has_records(model: Model, site: Site) -> None:
    """2: a link declares missing what was gone at its source; if the topic was deleted there since, and lives again, it
    has come from others, who may have had more."""
    for topic, place, _ in places_of(site):
        for gap in site.shown.gaps.get(place, ()):
            source = next(each for each in model.sites.values() if each.stream_id == gap.via)
            copy = source.log.announced.state.by_incarnation(topic.incarnation)
            if copy is None or source.name in model.torn or gap.commit < source.shown.made[copy.number]:
                continue
            found = values_at(source.log, copy.number, place[1])
            left_out = model.left_out.get(place, 0)
            false = [offset for offset in found if max(gap.first, left_out) <= offset < gap.end]
            assert not false, f"{site.name}: {topic.name}-{place[1]} has a gap at {false}, {source.name} has them"


def acknowledged_records_are_at_their_writer(
    model: Model,
    site: Site,
    topic: Topic,
    place: Place,
    state: PartitionState,
    found: Mapping[int, bytes | None],
    gaps: Collection[int],
) -> None:
    """3: what a site has acknowledged is not lost there but by expiry, by deletion, or as another owner's history goes
    on without it; and no deletion that was acknowledged comes undone."""
    epoch, deleted_to = model.deleted_to.get(place, (topic.epoch, 0))
    if topic.owner == site.stream_id and epoch == topic.epoch:
        assert state.log_start >= deleted_to, "a deletion that was acknowledged is lost"
    if (place[0], site.name) in model.deleted_at:
        return  # and it has come back with another owner, without what that one has not
    if place[0] in model.rolled_back and topic.owner != site.stream_id:
        return  # nobody sees where its owner's history and its own part
    tree = model.trees[place]
    is_pending = any(each.partition == place[1] for each in pending_partitions(topic, site.log.announced.state))
    end = state.end if is_pending else OFFSET_MAX  # it had been cut off, and a later owner has it
    cut = min((cut.offset for cut in site.log.announced.state.cuts_of(topic.number, place[1])), default=OFFSET_MAX)
    for (epoch, offset), value in model.acked.get(place, {}).items():
        is_ours = site.shown.gone[place] <= offset < end and tree[epoch].owner == site.stream_id
        is_ours = is_ours and not (offset >= cut and offset in gaps)  # cut off here, and expired at the later owner
        if is_ours and model.is_on_path(place, topic.epoch, epoch, offset):
            assert found.get(offset) == value, f"{site.name}: acknowledged {offset} of {place} is lost"


def acknowledged_tails_are_kept(model: Model, site: Site) -> None:
    """3 and 4: what an owner of before has acknowledged, and the present owner's history has not, is dead where it was
    written and kept there, until it is copied into the diverged topic."""
    gone = {incarnation for incarnation, at in model.deleted_at if at == site.name}
    for topic, place, state in places_of(site):
        if place[0] in model.rolled_back or (place[0], site.name) in model.deleted_at:
            continue
        dead = {
            offset: value
            for (epoch, offset), value in model.acked.get(place, {}).items()
            if model.trees[place][epoch].owner == site.stream_id
            and offset >= site.shown.gone[place]
            and not model.is_on_path(place, topic.epoch, epoch, offset)
        }
        assert not any(cut.keep for cut in site.log.announced.state.cuts_of(topic.number, place[1])), "not copied"
        if any(of == place[0] and tail in model.deleted | gone for tail, of in model.tails.items()):
            continue  # nobody wanted it
        lost = set(dead) - copied(model, site, place)
        assert not lost, f"{site.name}: acknowledged {sorted(lost)} of {topic.name} are in no diverged topic, {state}"


def copied(model: Model, site: Site, place: Place) -> set[int]:
    """Offsets of the records that stand in diverged topics of a partition; and of those that have expired there."""
    found: set[int] = set()
    for incarnation in [tail for tail, of in model.tails.items() if of == place[0]]:
        topic = site.log.announced.state.by_incarnation(incarnation)
        if topic is not None and place[1] < topic.partitions:
            values = values_at(site.log, topic.number, place[1])
            found |= set(values) | set(range(site.shown.gone.get((incarnation, place[1]), 0)))
    return found


def a_gap_is_what_was_gone(model: Model, site: Site, place: Place, gaps: set[int]) -> None:
    """2: what is declared missing had expired, or was deleted, at some site."""
    if place[0] in model.rolled_back or place[0] in model.tails:
        return
    gone = max(model.left_out.get(place, 0), *(each.shown.gone.get(place, 0) for each in model.sites.values()))
    assert all(offset < gone for offset in gaps), f"{site.name}: a false gap {sorted(gaps)}, gone below {gone}"


def nothing_below_a_position_is_missing(
    model: Model, link: Link, wire_id: bytes, slices: Iterable[int], passing: LinkTopics
) -> None:
    """6: whatever lies before a position is here, or noted, or what did away with it at the source is here or to come:
    a tombstone or the start of a log lies behind the rows that it stands for, and so behind a position that was
    recorded between them."""
    source, destination = model.sites[link.source], model.sites[link.target]
    state = destination.log.announced.state
    positions = {slice_: at.commit for (_, slice_), at in state.positions(wire_id).items() if slice_ in slices}
    if not positions:
        return
    noted = {(key[1], key[2]) for key in state.notes(wire_id)}
    for seen in source.shown.seen:
        if seen.commit >= positions.get(seen.slice, 0) or seen.place in noted:
            continue
        if not _goes_over(model, link, seen):
            continue
        names = source.shown.names_from(seen.place[0], positions[seen.slice])
        if not all(lets_by(passing, name) for name in names):
            continue
        if any(_is_superseded(model, site, seen) for site in (source, destination)) or _is_pending(destination, seen):
            continue
        if state.tombstone(seen.place[0]) is not None or _is_here(destination, seen):
            continue
        if _has_made_room(model, destination, seen):
            continue
        if link.peer == "partner" and state.by_incarnation(seen.place[0]) is None and seen.place[0] in model.deleted:
            continue  # a partner's deletion of what never came leaves no tombstone
        if _expired_with_its_writers_end(model, link, seen):
            continue
        assert _will_be_gone(source, seen, positions[seen.slice]), (
            f"{link}: the position skipped offset {seen.last_offset} of {seen.place}"
        )


def _has_made_room(model: Model, site: Site, seen: Seen) -> bool:
    """The topic has yielded its name there. Where people decide who has it in the end, only one does that has no
    records any more, since its present owner had none of them."""
    incarnation = seen.place[0]
    is_here = site.log.announced.state.by_incarnation(incarnation) is not None
    made_room = model.has_contested_name(incarnation) or (incarnation, site.name) in model.yielded_at
    if is_here or not made_room:
        return False
    last = model.epoch_of(incarnation)
    return not model.decides or not model.is_on_path(seen.place, last, seen.epoch, seen.last_offset)


def _goes_over(model: Model, link: Link, seen: Seen) -> bool:
    """Whether the link brings that batch."""
    if IDS[link.target] in {seen.origin, seen.via} or (link.forward == "own" and seen.via is not None):
        return False
    return link.peer == "own" or model.owner_of(seen.place[0]) == IDS[link.source]


def _is_pending(site: Site, seen: Seen) -> bool:
    """The site has heard of an owner from an answer, has cut its log, and shows that the owner's history is not here:
    no link may bring that."""
    topic = site.log.announced.state.by_incarnation(seen.place[0])
    if topic is None:
        return False
    pending = pending_partitions(topic, site.log.announced.state)
    return any(each.partition == seen.place[1] for each in pending)


def _is_superseded(model: Model, site: Site, seen: Seen) -> bool:
    """Whether the history of the topic's owner, as the site knows it, goes on without that batch."""
    topic = site.log.announced.state.by_incarnation(seen.place[0])
    return topic is not None and not model.is_on_path(seen.place, topic.epoch, seen.epoch, seen.last_offset)


def _expired_with_its_writers_end(model: Model, link: Link, seen: Seen) -> bool:
    """It is of a tail whose end the link's destination has written, and so had all of it: what expires of such a tail
    at another holder leaves a START row in the place of its end, and no link brings a site what it has written."""
    if seen.place[0] not in model.tails:
        return False
    tree, gone = model.trees.get(seen.place, {}), model.sites[link.source].shown.gone.get(seen.place, 0)
    return bool(tree) and tree[max(tree)].owner == IDS[link.target] and gone > seen.last_offset


def _is_here(site: Site, seen: Seen) -> bool:
    """The batch, or the gap in its place."""
    incarnation, partition = seen.place
    topic = site.log.announced.state.by_incarnation(incarnation)
    return topic is not None and site.log.announced.state.partition(topic.number, partition).end > seen.last_offset


def _will_be_gone(source: Site, seen: Seen, position: int) -> bool:
    """From the position on the source tells that the batch's topic was deleted, or that it expired."""
    incarnation, partition = seen.place
    topics = source.shown.topics
    return any(
        row.kind == Kind.TOPIC_DELETED
        or (row.kind == Kind.START and row.partition == partition and row.base_offset > seen.last_offset)
        for row in rows_of(source.log, position)
        if row.topic in topics and topics[row.topic].incarnation == incarnation
    )


def a_position_is_not_ahead(model: Model, link: Link, wire_id: bytes) -> None:
    """6: no more was applied than the source has announced."""
    source, destination = model.sites[link.source], model.sites[link.target]
    for position in destination.log.announced.state.positions(wire_id).values():
        assert position.commit <= source.log.announced.end, f"{link}: {position} is ahead of the source"


def a_name_is_for_one_incarnation(site: Site) -> None:
    """8: and an incarnation has one name, in each stream."""
    state = site.log.announced.state
    for topic in state.topics():
        assert is_topic_name(topic.name), f"{site.name}: no topic can be called {topic.name}"
        assert state.number_of(topic.name) == topic.number, f"{site.name}: two topics have the name {topic.name}"
        assert state.number_of_incarnation(topic.incarnation) == topic.number, f"{site.name}: {topic.name} twice"
        assert state.tombstone(topic.incarnation) is None, f"{site.name}: {topic.name} is deleted and lives"


def nothing_waits_that_gets_a_name_by_itself(model: Model, link: Link, wire_id: bytes) -> None:
    """8: at a site that gives names by itself a topic waits only as long as no record of it has come."""
    source, destination = model.sites[link.source], model.sites[link.target]
    state = destination.log.announced.state
    if link.target not in model.given.aliasing:
        return
    positions = {slice_: at.commit for (_, slice_), at in state.positions(wire_id).items()}
    waiting = {key[1] for key, note in state.notes(wire_id).items() if (note.behind.reason or "").startswith(NAME_HELD)}
    came = [seen for seen in source.shown.seen if seen.place[0] in waiting and seen.commit < positions[seen.slice]]
    came = [seen for seen in came if _goes_over(model, link, seen) and model.given.brings_now(link, seen.place[0])]
    came = [seen for seen in came if not _is_superseded(model, source, seen)]  # a reader passes dead rows over
    assert not came, f"{link}: records came of what waits for a name: {came}"


def a_conflict_has_a_cause(model: Model, link: Link, wire_id: bytes) -> None:
    """10: a name that two owners use, a site that was rolled back, or a partner that brings what is not its own. What
    lives is not deleted here."""
    state = model.sites[link.target].log.announced.state
    for key, note in state.notes(wire_id).items():
        is_here = state.by_incarnation(key[1]) is not None
        assert not (is_here and note.behind.reason == DELETED_HERE), f"{link}: {note.behind} of a topic that lives"
        if note.behind.conflict and not _has_a_cause(model, link, key[1], note.behind):
            raise AssertionError(f"{link}: {note.behind} without a cause")


def _has_a_cause(model: Model, link: Link, incarnation: bytes, behind: Behind) -> bool:
    if model.contested(behind.topic) or incarnation in model.rolled_back:
        return True
    reason = behind.reason or ""
    if reason.startswith(NO_NAME_HERE):
        return True
    holder = model.sites[link.target].log.announced.state.by_name(behind.topic)
    both = [incarnation, *([] if holder is None else [holder.incarnation])]
    is_prefixed = any(model.given.shape.prefixes_of(link))
    if reason.startswith(NAME_HELD) and (is_prefixed or any(map(model.given.renamed_or_prefixed, both))):
        return True
    if link.peer == "partner" and model.owners_of(incarnation) != {IDS[link.source]}:
        return True
    if incarnation in model.tails:
        return True
    # What is deleted is noted if it comes again by the link that had brought the deletion, until that comes again too.
    return incarnation in model.deleted


def all_sites_agree(model: Model, shape: Shape, wire_ids: Mapping[Link, bytes]) -> None:
    """After healing: every replica that a topic reaches stands where its owner stands, and nothing is behind."""
    for owner in map(model.sites.__getitem__, shape.sites):
        for topic in owner.log.announced.state.topics():
            is_the_last = topic.owner == owner.stream_id and topic.epoch == model.epoch_of(topic.incarnation)
            if is_the_last and not _is_for_people(model, topic) and not _lacks_for_ever(model, shape, owner, topic):
                brings = model.brings(topic.incarnation)
                for name in shape.reached_from(owner.name, moved=topic.epoch > 0, lets_by=brings) - {owner.name}:
                    a_replica_stands_where_its_owner_does(model, shape, owner, topic, model.sites[name])
    for link, wire_id in wire_ids.items():
        for each in (note.behind for note in model.sites[link.target].log.announced.state.notes(wire_id).values()):
            is_known = model.sites[link.source].log.announced.state.by_incarnation(each.incarnation) is not None
            owner_site = next((name for name in shape.sites if IDS[name] == model.owner_of(each.incarnation)), "")
            brings = model.brings(each.incarnation)
            has_all = owner_site and link.source in shape.reached_from(owner_site, moved=True, lets_by=brings)
            has_all = has_all and brings(link)
            is_known = is_known and bool(has_all) and not _waits_for_another_link(model, link, each)
            if not model.contested(each.topic) and each.incarnation not in model.rolled_back and is_known:
                assert _has_a_cause(model, link, each.incarnation, each), f"{link}: still {each}"
                assert each.conflict or each.incarnation in model.deleted, f"{link}: still {each}"
    for link in wire_ids:
        a_source_knows_the_owner(model, link, wire_ids[link])
    for site in model.sites.values():
        no_gap_is_where_its_sender_has_records(model, site)
        acknowledged_tails_are_kept(model, site)
        for topic in site.log.announced.state.topics():
            if topic.incarnation in model.deleted and not _is_for_people(model, topic) and not model.torn:
                writer = next(each for each in shape.sites if IDS[each] == model.owner_of(topic.incarnation))
                moved = len(model.owners_of(topic.incarnation)) > 1
                brings = model.brings(topic.incarnation)
                # Of a partner's topic that came only later, by a link that has left it out since, nobody hears more.
                tells = [each for each in shape.links if brings(each) and (each.peer == "own" or not shape.filters)]
                assert site.name not in shape.reached_from(writer, moved=moved, lets_by=tells.__contains__), (
                    f"{site.name}: {topic.name} was deleted and lives"
                )


def _waits_for_another_link(model: Model, link: Link, noted: Behind) -> bool:
    """What a group has committed at the source of a topic that never was the source's own, and that is not here."""
    known = model.sites[link.target].log.announced.state.by_incarnation(noted.incarnation)
    is_here = known is not None and noted.partition < known.partitions
    is_the_sources = IDS[link.source] in model.owners_of(noted.incarnation)
    return link.forward == "own" and not is_here and not is_the_sources


def a_source_knows_the_owner(model: Model, link: Link, wire_id: bytes) -> None:
    """1: who sends to us hears from us of an owner that we know: it does not go on writing what nobody takes. Where
    that is told only in answers, a source hears of it that has sent us something since which nobody takes."""
    for topic in model.sites[link.source].log.announced.state.topics():
        known = model.sites[link.target].log.announced.state.by_incarnation(topic.incarnation)
        if known is not None and link.peer == "own" and not _is_for_people(model, topic):
            is_told = not model.answers or _has_sent_in_vain(model, link, wire_id, topic, known)
            assert topic.epoch >= known.epoch or not is_told, f"{link}: {topic} at the source, which {known} has"


def _has_sent_in_vain(model: Model, link: Link, wire_id: bytes, topic: Topic, known: Topic) -> bool:
    """Whether a link has brought a record of the topic, as its source knows it, since its destination has `known`."""
    source, destination = model.sites[link.source], model.sites[link.target]
    if (known.incarnation, link.target) in model.deleted_at or model.torn:
        return False
    since = destination.shown.log.since[known.incarnation, known.epoch]
    for seen in source.shown.seen:
        if seen.place[0] != topic.incarnation or not _goes_over(model, link, seen):
            continue
        first = destination.shown.log.stood_at(wire_id, seen.slice, since)
        now = destination.log.announced.state.position((wire_id, 0, seen.slice))
        is_held = source.log.announced.state.partition(topic.number, seen.place[1]).log_start <= seen.last_offset
        came = now is not None and first <= seen.commit < now.commit
        counts = [model.is_on_path(seen.place, at, seen.epoch, seen.last_offset) for at in (topic.epoch, known.epoch)]
        if came and is_held and counts == [True, False]:
            return True
    return False


def _had_lost(model: Model, site: Site, place: Place, tail: PartitionState) -> bool:
    """Whether the site wrote the last epoch of a tail, and all of it had expired there."""
    epoch = model.trees.get(place, {}).get(tail.epoch)
    gone = site.shown.gone.get((model.tails[place[0]], place[1]), 0)
    return epoch is not None and epoch.owner == site.stream_id and gone >= tail.end


def _has_elsewhere(model: Model, site: Site, tail: Place, copy: PartitionState) -> bool:
    """Whether what follows of a tail is of an epoch that the site wrote itself, and it keeps that in another diverged
    topic: its own log was cut by another owner."""
    later = {epoch: first for epoch, first in _path_of(model, tail) if first >= copy.end}
    parent = (model.tails[tail[0]], tail[1])
    wrote = [model.trees[tail][epoch] for epoch in later if model.trees[tail][epoch].owner == site.stream_id]
    return (
        bool(later)
        and len(wrote) == len(later)
        and copied(model, site, parent)
        >= {
            offset
            for epoch in wrote
            for offset in epoch.records
            if (epoch.number, offset) in model.acked.get(parent, {})
        }
    )


def _path_of(model: Model, place: Place) -> tuple[tuple[int, int], ...]:
    tree = model.trees.get(place, {})
    return tree[max(tree)].path if tree else ()


def _has_no_record(site: Site, topic: Topic) -> bool:
    state = site.log.announced.state
    return all(state.partition(topic.number, each).end == 0 for each in range(topic.partitions))


def _lacks_for_ever(model: Model, shape: Shape, owner: Site, topic: Topic) -> bool:
    """Its owner has been given the topic, by force, where no link brings what another had written of it: nobody writes
    it until people take it over anew."""
    if not any(pending_partitions(topic, owner.log.announced.state)):
        return False
    writers = [name for name in shape.sites if IDS[name] in model.owners_of(topic.incarnation)]
    brings = model.brings(topic.incarnation)
    return any(owner.name not in shape.reached_from(writer, lets_by=brings) for writer in writers)


def _is_for_people(model: Model, topic: Topic) -> bool:
    """Of a topic whose owner was rolled back each holder may have been cut by another epoch, and so keep the tail in
    another topic, which no link brings to whom it had the records from."""
    of = {topic.incarnation, model.tails.get(topic.incarnation, topic.incarnation)}
    return model.contested(topic.name) or not of.isdisjoint(model.rolled_back)


def a_replica_stands_where_its_owner_does(model: Model, shape: Shape, owner: Site, topic: Topic, replica: Site) -> None:
    """The same partitions, ends and epochs; and no record that the owner has deleted."""
    state = replica.log.announced.state
    copy = state.by_incarnation(topic.incarnation)
    notes = [note.behind for note in state.all_notes().values() if note.behind.incarnation == topic.incarnation]
    if topic.incarnation in model.tails and any(note.conflict for note in notes):
        return  # the holder of a tail that lacks its last epoch in some partition knows no beginning of it there
    if copy is None and model.decided and _has_no_record(owner, topic):
        return  # it has made room for another one there, and comes with its first record
    assert copy is not None, f"{replica.name}: topic {topic.name} of {owner.name} never came"
    if not any(shape.prefixes.values()):
        names_are_the_owners(model.given, replica, copy, topic.home)
    assert (copy.epoch, copy.owner) == (topic.epoch, topic.owner), f"{replica.name}: {copy}, {owner.name}: {topic}"
    # An owner of before may have added some unseen, and its successor hear of them only if a link comes from there.
    is_newer_tail = topic.incarnation in model.tails and copy.version > topic.version
    owners = len(model.owners_of(topic.incarnation))
    is_told = any(
        (link.source, link.target, link.forward, link.peer) == (replica.name, owner.name, "all", "own")
        and model.brings(topic.incarnation)(link)
        for link in shape.links
    )
    # Where a third one owned the topic when they came there, they were passed over.
    is_unheard = owners > 2 or (owners == 2 and not is_told)
    are_more = copy.partitions > topic.partitions and (is_newer_tail or is_unheard)
    assert copy.partitions == topic.partitions or are_more, f"{replica.name}: {copy}, {owner.name}: {topic}"
    # Of a diverged topic others may know more partitions, of which no link tells whose tail it is until records come.
    assert copy.version == topic.version or (is_newer_tail and are_more), (
        f"{replica.name}: {topic.name} has version {copy.version}"
    )
    for partition in range(topic.partitions):
        expected = owner.log.announced.state.partition(topic.number, partition)
        got = state.partition(copy.number, partition)
        if topic.incarnation in model.tails and got.end >= expected.end:
            continue  # of what a replica had cut off, the owner may have copied a longer tail, which is another topic
        if topic.incarnation in model.tails and _had_lost(model, replica, (topic.incarnation, partition), expected):
            continue  # no link brings a site what it wrote
        if topic.incarnation in model.tails and _has_elsewhere(model, replica, (topic.incarnation, partition), got):
            continue
        assert got.end == expected.end, f"{replica.name}: {topic.name} ends at {got}, at {owner.name} at {expected}"
        assert got.epoch == expected.epoch
        # What an owner of before has deleted unseen stays so where that came first, and comes to nobody else.
        epoch, told = model.deleted_to.get((topic.incarnation, partition), (0, 0))
        told = min(told, expected.deleted_to) if epoch == topic.epoch else 0  # the rest had expired
        deleted_to = max(told, topic.deleted_before(partition)) if topic.epoch else expected.deleted_to
        assert got.log_start >= deleted_to, f"{replica.name}: {topic.name}: {got}, at {owner.name} {expected}"
