"""What `--dry-run` shows of a source: what would be mirrored, from where on, and what would go along with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from fairlead.mirror.following.settings import shown
from fairlead.mirror.planning.plan import Planned, TopicPlan
from fairlead.mirror.running.alongside import Alongside
from fairlead.mirror.source import Source
from fairlead.model.errors import BadRequest

GROUPS_SHOWN_MAX: Final = 100
"""Names of groups; beyond that only their number."""


async def outlook(
    source: Source, topics: TopicPlan, planned: Sequence[Planned], along: Alongside
) -> AsyncIterator[str]:
    """Its lines, each as soon as it is known. Raises: BadRequest, TryAgain."""
    yield f"{source.label}: {len(topics.topics)} topics with {len(planned)} partitions"
    for line in (*_of_topics(topics), *map(_of_partition, planned), *_of_others(topics)):
        yield f"  {line}"
    if source.groups.wanted:
        yield f"  {_of_groups(list(await source.groups.matching()))}"
    async for line in _of_settings(source, topics, along):
        yield f"  {line}"
    async for line in _of_acls(source, topics, along):
        yield f"  {line}"


def _of_topics(plan: TopicPlan) -> Iterable[str]:
    for topic in plan.topics:
        made = ", to be made" if topic.makes else ", gets more partitions" if topic.grows else ""
        yield f"{topic.source.name} → {topic.to} ({topic.partitions} partitions{made})"


def _of_partition(each: Planned) -> str:
    where = "position" if each.known else "taken over" if each.taken_over else "new"
    left = max(each.end - each.begin.offset, 0)
    stop = f"; STOPS: {each.stop}" if each.stop else ""
    return f"{each.part}: from {each.begin.offset} ({where}), {left:,} to mirror{stop}"


def _of_others(plan: TopicPlan) -> Iterable[str]:
    for topic, why in sorted({**plan.refused, **plan.left_out}.items()):
        yield f"{topic}: not mirrored: {why}"


def _of_groups(names: Sequence[str]) -> str:
    more = f" and {len(names) - GROUPS_SHOWN_MAX} more" if len(names) > GROUPS_SHOWN_MAX else ""
    named = ", ".join(names[:GROUPS_SHOWN_MAX]) + more
    return f"{len(names)} groups go along{': ' if names else ''}{named}"


async def _of_settings(source: Source, plan: TopicPlan, along: Alongside) -> AsyncIterator[str]:
    settings = along.settings(source)
    if settings is not None:
        there = {each.source.name: each.to for each in plan.topics if not each.makes}
        for to, changes in (await settings.differences(there)).items():
            for line in shown(to, changes):
                yield line


async def _of_acls(source: Source, plan: TopicPlan, along: Alongside) -> AsyncIterator[str]:
    acls = along.acls(source)
    if acls is not None:
        try:
            missing = await acls.missing({each.source.name: each.to for each in plan.topics})
        except BadRequest as error:  # as while it runs: the rest goes on
            yield f"ACLs of topics do not follow: {error}"
        else:
            yield f"{len(missing)} ACLs to be added"
