"""Consumer groups by Kafka's classic protocol: who is a member, which generation runs, who leads.

Comes in: joins, syncs, heartbeats, leaves, from handlers; timers. Goes out: answers, each through a callback, some of
them later, when the others have come. Here is no I/O, no offset and no Kafka bytes: subscriptions and assignments are
carried unread. Cursors lie in the log of the topic's stream (`handlers/offset_commit.py`).

    values.py       what is asked and answered
    member.py       one member and its timer
    members.py      the members of a group: ids, static instances, protocols that all of them know
    group.py        the state machine: Empty, PreparingRebalance, CompletingRebalance, Stable
    joining.py      what a join does in each state
    records.py      what is kept of a group, so that it outlives the process; `../group_logs/group_log.py` keeps it
    coordinator.py  all groups of a server; the async side that handlers call

Always true: a group without members and without ids it gave out has no timer, and of it only a record is left; a
generation has one leader, which is a member; an answer is given once; a member knows no assignment that is not kept. So
after a restart, or a `kill -9`, the members of a stable group go on as if nothing had happened.

Sources: KIP-62 (timeouts), KIP-134 (initial delay), KIP-345 (static members), KIP-394 (member id first),
KIP-559 (protocol names in sync), KIP-800 (reasons), KIP-814 (static leader skips the assignment); where they leave
room, `ClassicGroup` and `GroupMetadataManager` of Kafka 4.
"""
