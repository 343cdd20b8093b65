"""Access rules of topics follow their source, as MirrorMaker 2 has it: who may read there, may read the copy. Nobody
may write it but who is allowed to at the destination; what allows everything allows to read. Rules are added, none is
taken away; those of patterns stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead.kafka.values import ALLOW, OPERATION_ALL, OPERATION_READ, OPERATION_WRITE, Acl
from fairlead.mirror.ports import Cluster
from fairlead.mirror.report import Tally
from fairlead.model.errors import BadRequest, SwitchedOff


def copy_of(acl: Acl, topics: Mapping[str, str]) -> Acl | None:
    """The rule for the copy of a topic; None: there is none."""
    to = topics.get(acl.topic)
    if to is None or (acl.permission == ALLOW and acl.operation == OPERATION_WRITE):
        return None
    if acl.permission == ALLOW and acl.operation == OPERATION_ALL:
        acl = acl._replace(operation=OPERATION_READ)
    return acl._replace(topic=to)


class Acls:
    """Of the topics of one source. `tell` gets a line where there is nothing to follow."""

    def __init__(self, source: Cluster, destination: Cluster, tally: Tally, tell: Callable[[str], None]) -> None:
        self._source = source
        self._destination = destination
        self._tally = tally
        self._tell = tell

    async def missing(self, topics: Mapping[str, str]) -> list[Acl]:
        """What the destination lacks of the rules of these topics: source → destination.

        Raises:
            SwitchedOff: a cluster has no authorizer.
            BadRequest: a cluster does not tell us.
            TryAgain
        """
        copies = {copy for acl in await self._source.acls() if (copy := copy_of(acl, topics)) is not None}
        return sorted(copies - set(await self._destination.acls()))

    async def round(self, topics: Mapping[str, str]) -> None:
        """Add them. Where a cluster has no authorizer, there are none to be added.

        Raises:
            BadRequest: a cluster does not tell us, or some are refused, and the others are added.
            TryAgain
        """
        try:
            missing = await self.missing(topics)
        except SwitchedOff as why:
            self._tell(f"ACLs of topics do not follow: {why}")
            return
        refused = await self._destination.create_acls(missing) if missing else {}
        self._tally.acls_made += len(missing) - len(refused)
        for error in refused.values():
            raise BadRequest(f"{len(refused)} of them are refused; the first: {error}")
