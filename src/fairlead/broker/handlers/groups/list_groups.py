"""ListGroups: groups that have or had members on this listener, and those that have cursors; without members Empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import AnswerFields
from fairlead.broker.group_logs.cursors import groups_with_cursors
from fairlead.broker.groups.values import GroupDescription, GroupState
from fairlead.broker.pacing import Pace
from fairlead.protocol.messages import Fields

API_KEY = 16

CLASSIC = "classic"
"""The only group type that there is (KIP-848 has another)."""


async def handle(ctx: RequestContext, request: Any) -> AnswerFields:
    """All groups, or those of the asked states (KIP-518) and types."""
    states = _folded(getattr(request, "states_filter", ()))
    types = _folded(getattr(request, "types_filter", ()))
    pace = Pace()
    chosen: list[Fields] = []
    named: set[str] = set()
    for group in _groups(ctx) if not types or CLASSIC in types else ():
        if group.group not in named and (not states or group.state.value.lower() in states):
            chosen.append(_fields(group))
        named.add(group.group)
        await pace.turn()
    return {"error_code": ErrorCode.none, "groups": chosen}


def _groups(ctx: RequestContext) -> Iterator[GroupDescription]:
    """Those with members, now or before, first; a group may come again for its cursors."""
    yield from ctx.groups.known(ctx.listener.namespace)
    for group in groups_with_cursors(ctx.listener):
        yield GroupDescription(group, GroupState.EMPTY)


def _folded(words: Iterable[str]) -> set[str]:
    return {word.lower() for word in words}


def _fields(group: GroupDescription) -> Fields:
    return {
        "group_id": group.group,
        "protocol_type": group.protocol_type,
        "group_state": group.state.value,
        "group_type": CLASSIC,
    }
