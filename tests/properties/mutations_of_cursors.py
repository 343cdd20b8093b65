"""Rules of cursors that replicate, and the seed that notices when one is switched off."""

from __future__ import annotations

from tests.properties.actions import GROUPS, LATE
from tests.properties.switching import Mutation

OF_CURSORS = [
    Mutation(
        "cursor-below-a-cut",
        "a cursor is told no farther than where its epoch ended",
        "streamlog.cursors:Cursor.served",
        "offset = min(self.offset, self._end_of_what_was_read(state, current))",
        "offset = self.offset",
        9,
        GROUPS,
    ),
    Mutation(
        "lost-epochs",
        "of an epoch that was cut off whole, a group has read what both logs have",
        "streamlog.cursors:Cursor._end_of_what_was_read",
        "if not self.history or any(held == self.leader_epoch for held, _ in state.history):",
        "if True:",
        73,
        GROUPS,
    ),
    Mutation(
        "members-not-moved",
        "members that have committed are not moved",
        "streamlog.cursors:CursorPair.effective",
        "is_of_members = since is not None and own.at >= since",
        "is_of_members = False",
        46,
        GROUPS,
    ),
    Mutation(
        "older-cursor",
        "a cursor that is not newer is dropped",
        "streamlog.applying.cursors:CursorRows._is_new",
        "known.theirs is None or cursor.is_newer_than(known.theirs)",
        "True",
        14,
        GROUPS,
    ),
    Mutation(
        "cursor-from-elsewhere",
        "the newest cursor counts where the group has no members",
        "streamlog.cursors:CursorPair.effective",
        "not theirs.is_newer_than(own)",
        "True",
        1,
        GROUPS,
    ),
    Mutation(
        "cursor-goes-on",
        "a merge keeps what was committed here beside what came",
        "streamlog.payloads:control_key",
        "topic, partition, came)",
        "topic, partition)",
        13,
        GROUPS,
    ),
    Mutation(
        "cursors-bring-no-topic",
        "over a link with forward own, what was committed brings no topic of others",
        "gateway.links.passing:_may_come",
        'forward != "own" or noted.reason',
        "True or noted.reason",
        600003,
        GROUPS,
    ),
    Mutation(
        "apart-if-both-knew",
        "what comes late from a site that is lost is no work in two places",
        "streamlog.requests.cursors:_following",
        " and theirs.seen >= first",
        "",
        31,
        LATE,
    ),
]
