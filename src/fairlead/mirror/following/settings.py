"""Settings of topics follow their source, as MirrorMaker 2 has it: what was set for a topic there is set for its copy,
and what is set for the copy alone gets its default again.

Where another mirror carries the topic the other way under the same name, each of the two is the other's copy. There
only what has changed at the source alone since the last look is brought, else what somebody sets at one end would be
taken back by what comes from the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from typing import Final, NamedTuple

from fairlead.mirror.configs import Copied, Setting
from fairlead.mirror.ports import Cluster
from fairlead.mirror.report import Tally
from fairlead.model.errors import FairleadError

Changes = Mapping[str, str | None]
"""Setting → value; None: its default."""
_AT_ONCE: Final = 500


def changes_of(there: Mapping[str, Setting], here: Mapping[str, Setting], copied: Copied) -> dict[str, str | None]:
    """What must change of a topic at the destination."""
    wanted = copied.of(there)
    changes: dict[str, str | None] = {
        name: value for name, value in wanted.items() if name not in here or here[name].value != value
    }
    lone = (name for name, each in here.items() if each.own and name not in wanted and not copied.excludes(name))
    return {**changes, **dict.fromkeys(lone)}


class _Ends(NamedTuple):
    """What goes along, as it is set at both ends."""

    source: Mapping[str, str]
    copy: Mapping[str, str]


class Settings:
    """Of the topics of one source."""

    def __init__(
        self,
        source: Cluster,
        destination: Cluster,
        copied: Copied,
        tally: Tally,
        told: Callable[[str], None],
        both_ways: Callable[[], Awaitable[Container[str]]],
    ) -> None:
        """`both_ways` says which topics are mirrored the other way too, under the same names."""
        self._source = source
        self._destination = destination
        self._copied = copied
        self._tally = tally
        self._told = told
        self._refused: dict[tuple[str, str], str | None] = {}
        """Topic and setting → the value that was refused."""
        self._both_ways = both_ways
        self._seen: dict[str, _Ends] = {}
        """By the topic of the source, as of the last look."""
        self._looked: dict[str, _Ends] = {}
        """The same, as of this one."""

    async def differences(self, topics: Mapping[str, str]) -> Mapping[str, Changes]:
        """Topic of the destination → what must change, of these topics: source → destination; those that do not tell
        their settings are left out. Raises: TryAgain; BadRequest: nobody knows which are mirrored both ways."""
        both_ways = await self._both_ways()
        self._looked = {}
        found: dict[str, Changes] = {}
        untold: list[FairleadError] = []
        names = sorted(topics)
        for first in range(0, len(names), _AT_ONCE):
            some = names[first : first + _AT_ONCE]
            there = await self._source.configs(some)
            here = await self._destination.configs([topics[name] for name in some])
            for name in some:
                of_source, of_copy = there.get(name), here.get(topics[name])
                if isinstance(of_source, FairleadError):
                    untold.append(of_source)
                elif isinstance(of_copy, FairleadError):
                    untold.append(of_copy)
                elif of_source is not None and of_copy is not None:
                    changes = changes_of(of_source, of_copy, self._copied)
                    self._looked[name] = _Ends(self._copied.of(of_source), self._copied.of(of_copy))
                    if name == topics[name] and name in both_ways:
                        changes = self._since_the_last_look(name, changes)
                    found |= {topics[name]: changes} if changes else {}
        if untold:
            self._told(f"settings of {len(untold)} topics do not follow; the first: {untold[0]}")
        return found

    def _since_the_last_look(self, topic: str, changes: Changes) -> dict[str, str | None]:
        """Those of settings that have changed at the source, and not at the destination; of the others nobody knows
        which end is right, or the mirror the other way brings them."""
        now, before = self._looked[topic], self._seen.get(topic)
        if before is None:
            self._differ(topic, changes)
            return {}
        moved = {name for name in changes if before.source.get(name) != now.source.get(name)}
        apart = {name for name in moved if before.copy.get(name) != now.copy.get(name)}
        self._differ(topic, apart)
        return {name: value for name, value in changes.items() if name in moved - apart}

    def _differ(self, topic: str, names: Iterable[str]) -> None:
        if told := ", ".join(sorted(names)):
            self._told(
                f"topic {topic} is mirrored both ways, and has other settings at the destination: {told}; they stay as "
                "they are until one of them is set at one end"
            )

    async def round(self, topics: Mapping[str, str]) -> None:
        """Bring all that differs. Raises: as `differences`."""
        new = {to: self._not_refused(to, changes) for to, changes in (await self.differences(topics)).items()}
        new = {to: changes for to, changes in new.items() if changes}
        refused = await self._destination.alter_configs(new) if new else {}
        self._count(changes for to, changes in new.items() if to not in refused)
        for to in refused:
            for name, value in new[to].items():
                await self._alone(to, name, value)
        self._seen = {name: ends for name, ends in self._seen.items() if name in topics}
        for name, ends in self._looked.items():
            to = topics[name]
            self._seen[name] = ends._replace(copy=self._after(to, ends.copy, new.get(to, {})))

    def _after(self, to: str, copy: Mapping[str, str], brought: Changes) -> Mapping[str, str]:
        """What is set for a copy once what was brought is there, but for what was refused."""
        taken = {name: value for name, value in brought.items() if (to, name) not in self._refused}
        kept = {name: value for name, value in copy.items() if name not in taken}
        return {**kept, **{name: value for name, value in taken.items() if value is not None}}

    async def _alone(self, to: str, name: str, value: str | None) -> None:
        """One of the settings of a topic, since not all of them were taken."""
        refused = await self._destination.alter_configs({to: {name: value}})
        if to not in refused:
            self._count([{name: value}])
            return
        self._refused[to, name] = value
        what = name if value is None else f"{name} = {value}"
        self._told(f"topic {to} does not get the source's {what}: {refused[to]}")

    def _not_refused(self, to: str, changes: Changes) -> dict[str, str | None]:
        never = object()
        return {name: value for name, value in changes.items() if self._refused.get((to, name), never) != value}

    def _count(self, changes: Iterable[Changes]) -> None:
        self._tally.settings_changed += sum(map(len, changes))


def shown(to: str, changes: Changes) -> Iterable[str]:
    """Lines for people."""
    for name, value in sorted(changes.items()):
        yield f"{to}: {name} {'gets its default' if value is None else f'= {value}'}"
