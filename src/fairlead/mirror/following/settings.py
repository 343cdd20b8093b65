"""Settings of topics follow their source, as MirrorMaker 2 has it: what was set for a topic there is set for its copy,
and what is set for the copy alone gets its default again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

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


class Settings:
    """Of the topics of one source."""

    def __init__(
        self, source: Cluster, destination: Cluster, copied: Copied, tally: Tally, told: Callable[[str], None]
    ) -> None:
        self._source = source
        self._destination = destination
        self._copied = copied
        self._tally = tally
        self._told = told
        self._refused: dict[tuple[str, str], str | None] = {}
        """Topic and setting → the value that was refused."""

    async def differences(self, topics: Mapping[str, str]) -> Mapping[str, Changes]:
        """Topic of the destination → what must change, of these topics: source → destination; those that do not tell
        their settings are left out. Raises: TryAgain."""
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
                    found |= {topics[name]: changes} if changes else {}
        if untold:
            self._told(f"settings of {len(untold)} topics do not follow; the first: {untold[0]}")
        return found

    async def round(self, topics: Mapping[str, str]) -> None:
        """Bring all that differs. Raises: as `differences`."""
        new = {to: self._not_refused(to, changes) for to, changes in (await self.differences(topics)).items()}
        new = {to: changes for to, changes in new.items() if changes}
        refused = await self._destination.alter_configs(new) if new else {}
        self._count(changes for to, changes in new.items() if to not in refused)
        for to in refused:
            for name, value in new[to].items():
                await self._alone(to, name, value)

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
