"""Where two histories of one epoch part, found by digests over HTTP."""

from __future__ import annotations

from functools import partial

import pytest
from tests.gateway.pulling.test_pull import bound, known, pulled, ships, start_at
from tests.gateway.rig import SHIPS, Site

from fairlead.gateway.pulling.comparing import Comparing
from fairlead.gateway.pulling.neighbours import neighbours
from fairlead.model.errors import InvalidValue, NotAgreed
from fairlead.streamlog.requests.cuts import cut
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.neighbours import CompareAnswer, ComparedPartition, CompareRequest, OwnedAnswer, OwnedRequest

__all__ = ["bound"]


async def common(ny: Site, sf: Site, name: str = "box") -> int:
    """Below which offset both hold the same of a topic's only partition, as ny finds out."""
    (neighbour,) = neighbours(ny.cluster, ships(ny))
    key = (known(sf, name)[1].incarnation, 0)
    found = await Comparing(ny.cluster, ny.manager.new_gateways).common(ships(ny), neighbour, [key])
    return found[key].offset


async def cut_at(site: Site, name: str, offset: int) -> None:
    """The topic ends there."""
    shard, topic = known(site, name)
    request = partial(cut, number=topic.number, partition=0, offset=offset, reason="test", by_epoch=0, keep=None)
    await shard.submit(request)


@pytest.mark.usefixtures("bound")
async def test_the_first_batch_that_differs_is_found(sf: Site, ny: Site) -> None:
    """Anywhere: at the start, in the middle, in the last one; then what is only longer; also where batches are cut
    otherwise."""
    for number in range(70):
        await sf.write(SHIPS, "box", b"%d" % number, b"x")
    await pulled(ny, sf, "box")
    assert await common(ny, sf) == 140
    await cut_at(sf, "box", 138)
    assert await common(ny, sf) == 138
    for at in (138, 90, 34, 0):
        await cut_at(sf, "box", at)
        for number in range(at // 2, 70):
            await sf.write(SHIPS, "box", b"another %d" % number, b"x")
        assert await common(ny, sf) == at
        await cut_at(sf, "box", at)
        for number in range(at, 140):
            await sf.write(SHIPS, "box", b"%d" % number)
        assert await common(ny, sf) == at


@pytest.mark.usefixtures("bound")
async def test_what_is_gone_on_one_side_is_no_difference(sf: Site, ny: Site) -> None:
    """Expired at one site, or a gap of one site: nothing is to be cut for it."""
    for number in range(10):
        await sf.write(SHIPS, "box", b"%d" % number)
    await pulled(ny, sf, "box")
    await start_at(sf, "box", 4)
    assert await common(ny, sf) == 10
    await start_at(sf, "box", 13, gap_from=10)
    await sf.write(SHIPS, "box", b"13")
    assert await common(ny, sf) == 10
    await pulled(ny, sf, "box")
    assert await common(ny, sf) == 14


@pytest.mark.usefixtures("bound")
async def test_only_a_neighbour_is_answered_and_only_as_much_as_is_bounded(sf: Site, ny: Site) -> None:
    """As a pull. What a neighbour does not hold is said so."""
    await sf.write(SHIPS, "box", b"0")
    ask = sf.manager.new_gateways().ask_about
    asker = StreamPlace("ny", SHIPS, ships(ny).id)
    stranger = StreamPlace("ny", SHIPS, b"z" * 16)
    wanted = ComparedPartition(known(sf, "box")[1].incarnation, 0, ((0, 1),))
    with pytest.raises(NotAgreed, match="is bound to /mapr/sf/ships by no link"):
        await ask(sf.urls, "/gateway/compare", CompareRequest(stranger, SHIPS, (wanted,)), CompareAnswer)
    with pytest.raises(NotAgreed, match="is bound to /mapr/sf/ships by no link"):
        await ask(sf.urls, "/gateway/owned", OwnedRequest(stranger, SHIPS), OwnedAnswer)
    with pytest.raises(InvalidValue, match="501 partitions in one question"):
        await ask(sf.urls, "/gateway/compare", CompareRequest(asker, SHIPS, (wanted,) * 501), CompareAnswer)
    many = ComparedPartition(wanted.incarnation, 0, ((0, 1),) * 65)
    with pytest.raises(InvalidValue, match="ranges"):
        await ask(sf.urls, "/gateway/compare", CompareRequest(asker, SHIPS, (many,)), CompareAnswer)
    other = ComparedPartition(b"q" * 16, 0)
    answer = await ask(sf.urls, "/gateway/compare", CompareRequest(asker, SHIPS, (wanted, other)), CompareAnswer)
    assert [(each.held, each.end, len(each.digests)) for each in answer.partitions] == [(True, 1, 1), (False, 0, 0)]
    owned = await ask(sf.urls, "/gateway/owned", OwnedRequest(asker, SHIPS, 0, 0), OwnedAnswer)
    assert (owned.topics, owned.next) == ((), None), "sf owns it itself"
