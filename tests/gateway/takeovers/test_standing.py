"""The question how topics stand at a neighbour: who is answered, and which answers count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
from tests.gateway.rig import REPLICA, SHIPS, Site, set_up
from tests.support.waiting import until

from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.takeovers import answering
from fairlead.gateway.takeovers.asking import Answers, Asking
from fairlead.model.errors import InvalidValue, NotAgreed
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.neighbours import StandingAnswer, StandingRequest, StandingTopic


@pytest.fixture
async def bound(sf: Site, ny: Site) -> None:
    """ny accepts sf, which has asked where it stands; nobody carries anything."""
    await set_up(sf, ny)
    await until(lambda: all(link.state.ready for link in sf.manager.running))


def incarnations(site: Site) -> list[bytes]:
    return [topic.incarnation for topic in site.cluster.stream(SHIPS).topics()]


def request(asker: Site, *wanted: bytes) -> StandingRequest:
    place = StreamPlace(asker.name, SHIPS, asker.cluster.stream(SHIPS).id, asker.urls)
    return StandingRequest(place, SHIPS, wanted)


async def ask(site: Site, urls: Sequence[str], asked: StandingRequest) -> StandingAnswer:
    """What the gateway at one of these addresses answers to a question of this site."""
    return await site.manager.new_gateways().ask_about(urls, "/gateway/standing", asked, StandingAnswer)


@pytest.mark.usefixtures("bound")
async def test_only_neighbours_are_told_how_topics_stand(sf: Site, ny: Site) -> None:
    """Bound by path and id. A partner that we only receive from is told of its own topics alone."""
    await sf.write(SHIPS, "box", b"0")
    await ny.write(SHIPS, "own", b"0")
    (box,), (own,) = incarnations(sf), incarnations(ny)
    asked = request(ny, box, own)
    (found,) = (await ask(sf, sf.urls, asked)).topics
    assert (found.topic.name, [each.end for each in found.partitions]) == ("box", [1])
    for stranger in (replace(asked.asker, stream=b"z" * 16), replace(asked.asker, path="/others")):
        with pytest.raises(NotAgreed, match="is bound to /mapr/sf/ships by no link"):
            await ask(sf, sf.urls, replace(asked, asker=stranger))
    with pytest.raises(InvalidValue, match="501 topics in one question"):
        await ask(sf, sf.urls, request(ny, *[box] * 501))
    assert (await ask(sf, ny.urls, request(sf, own))).topics
    (upstream,) = ny.cluster.links.upstreams(ny.cluster.stream(SHIPS).id)
    await ny.links.edit_upstream(SHIPS, upstream.path, peer="partner")
    answer = await ask(sf, ny.urls, request(sf, own))
    assert (answer.asked, answer.topics) == (1, ())
    await sf.links.remove(SHIPS, REPLICA)
    with pytest.raises(NotAgreed):
        await ask(sf, sf.urls, asked)


@pytest.mark.usefixtures("bound")
async def test_a_long_answer_comes_in_parts(sf: Site, ny: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is bounded by partitions, and one topic that has more comes alone; nothing is left out."""
    monkeypatch.setattr(answering, "PARTITIONS_MAX", 5)
    for name, partitions in (("a", 3), ("b", 2), ("c", 9), ("d", 1)):
        await sf.cluster.stream(SHIPS).create_topic(name, partitions)
    wanted = [*incarnations(sf), b"n" * 16]
    first = await ask(sf, sf.urls, request(ny, *wanted))
    assert first.asked < len(wanted)
    answers = await Asking(ny.cluster, ny.manager.new_gateways).ask(ny.cluster.stream(SHIPS), wanted)
    (heard,) = answers.heard.values()
    assert set(heard) == set(incarnations(sf))


class Made:
    """Gateways that give an answer of a test's making."""

    def __init__(self, answer: StandingAnswer) -> None:
        self._answer = answer

    async def ask_about(self, urls: Sequence[str], route: str, request: object, kind: type[object]) -> StandingAnswer:
        """The answer."""
        return self._answer


@pytest.mark.usefixtures("bound")
async def test_an_answer_that_makes_no_sense_is_none(sf: Site, ny: Site) -> None:
    """It is shown with its reason, as that of a neighbour that is away. One that says nothing of what was asked for is
    not asked for ever."""
    await sf.write(SHIPS, "box", b"0")
    stream = ny.cluster.stream(SHIPS)
    wanted = incarnations(sf)
    good = await ask(sf, sf.urls, request(ny, *wanted))
    (box,) = good.topics
    (partition,) = box.partitions

    async def heard(answer: StandingAnswer) -> Answers:
        return await Asking(ny.cluster, lambda: cast(Gateways, Made(answer))).ask(stream, wanted)

    assert (await heard(good)).silent == {}
    late = StandingTopic(box.topic, (replace(partition, history=((0, 0), (5, 9))),))
    for answer, why in (
        (replace(good, stream=b"z" * 16), "another stream answers there"),
        (replace(good, cluster="la"), "another stream answers there"),
        (replace(good, asked=0), "it answers 0 questions of 1"),
        (replace(good, asked=2), "it answers 2 questions of 1"),
        (replace(good, topics=(replace(box, partitions=()),)), "topic box: 0 partitions of 1"),
        (replace(good, topics=(late,)), "epoch 5 from offset 9 does not continue a history that ends at 1"),
    ):
        answers = await heard(answer)
        assert not answers.heard
        assert why in answers.silent["/mapr/sf/ships"]
