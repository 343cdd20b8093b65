"""Who may do what with topics: read, and added to."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.kafka.asking.retrying import again
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.connecting.versions import CREATE_ACLS, DESCRIBE_ACLS
from fairlead.kafka.errors import check, final_error
from fairlead.kafka.values import Acl
from fairlead.model.errors import FairleadError
from fairlead.protocol.wire import Malformed

_TOPIC = 2
_ANY = 1
"""Of operations and permissions, in a filter."""
_LITERAL = 3
"""The pattern is the name of one topic, not the start of many."""
_ACLS_AT_ONCE = 500


class Acls:
    """Of topics that are named, not those of patterns."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def described(self) -> list[Acl]:
        """See `Cluster.acls`."""
        question = {
            "resource_type_filter": _TOPIC,
            "resource_name_filter": None,
            "pattern_type_filter": _LITERAL,
            "principal_filter": None,
            "host_filter": None,
            "operation": _ANY,
            "permission_type": _ANY,
        }

        async def ask() -> list[Acl]:
            answer = await (await self._brokers.any()).call(DESCRIBE_ACLS, question)
            check(answer.error_code, "the ACLs of topics", answer.error_message)
            return [
                Acl(resource.resource_name, each.principal, each.host, each.operation, each.permission_type)
                for resource in answer.resources
                for each in resource.acls
            ]

        return await again(self._brokers.settings, ask)

    async def create(self, acls: Sequence[Acl]) -> dict[Acl, FairleadError]:
        """See `Cluster.create_acls`."""
        refused: dict[Acl, FairleadError] = {}
        for first in range(0, len(acls), _ACLS_AT_ONCE):
            refused |= await self._create(acls[first : first + _ACLS_AT_ONCE])
        return refused

    async def _create(self, acls: Sequence[Acl]) -> dict[Acl, FairleadError]:
        creations = [
            {
                "resource_type": _TOPIC,
                "resource_name": acl.topic,
                "resource_pattern_type": _LITERAL,
                "principal": acl.principal,
                "host": acl.host,
                "operation": acl.operation,
                "permission_type": acl.permission,
            }
            for acl in acls
        ]

        async def ask() -> dict[Acl, FairleadError]:
            """One that is there already is simply added again."""
            connection = await self._brokers.controller()
            results = (await connection.call(CREATE_ACLS, {"creations": creations})).results
            if len(results) != len(acls):
                raise Malformed(f"{connection.who} answers for {len(results)} of {len(acls)} ACLs")
            refused: dict[Acl, FairleadError] = {}
            for acl, result in zip(acls, results, strict=True):
                what = f"an ACL of topic {acl.topic} for {acl.principal}"
                error = final_error(result.error_code, what, result.error_message)
                if error is not None:
                    refused[acl] = error
            return refused

        return await again(self._brokers.settings, ask)
