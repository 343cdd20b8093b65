"""Rules of sites that were put back to a backup, each with a seed that notices that it is off."""

from __future__ import annotations

from tests.properties.returning import RETURNS
from tests.properties.switching import Mutation
from tests.properties.wide import WIDE

OF_RETURNS = [
    Mutation(
        "rolled-back-writes-nothing",
        "a site that was rolled back writes nothing until it is recovered",
        "streamlog.requests.ownership:check_may_write",
        "check_not_rolled_back(draft)",
        "pass",
        1,
        RETURNS,
    ),
    Mutation(
        "recovered-tail",
        "what was written since the backup is kept where others have more",
        "streamlog.requests.ownership:recover",
        "keep = restored_incarnation(found.incarnation, states[each].epoch, epoch)",
        "keep = None",
        1,
        RETURNS,
    ),
    Mutation(
        "recovered-by-digests",
        "where a restored log and a neighbour's part, their records say",
        "gateway.pulling.comparing:Comparing.common",
        "if one != other.digests",
        "if False",
        1,
        RETURNS,
    ),
    Mutation(
        "recovered-epoch",
        "a recovered topic goes on in an epoch of its own",
        "streamlog.requests.ownership:recover",
        "_change_owner(draft, found, draft.stream_id, owner_at, writer_epoch_id, since)",
        "found",
        11,
        WIDE[3],
    ),
    Mutation(
        "goes-on-elsewhere",
        "a neighbour that does not know our epoch yet is brought to it",
        "gateway.pulling.restored:_goes_on",
        "return common.held.epoch > topic.epoch",
        "return True",
        15,
        RETURNS,
    ),
]
