"""Random lives of members; whatever happened, those that go on as clients do end up in one stable generation."""

from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from tests.broker.groups.stage import Stage

from fairlead.broker.groups.values import GroupState, Identity


class Person:
    """An actor with a mind: what it does next depends on what it was told last, as with a client."""

    def __init__(self, stage: Stage, index: int, static: bool) -> None:
        self.stage = stage
        self.instance = f"instance-{index}" if static else None
        self.alive = True
        self.start()

    def start(self) -> None:
        """Begin without a member id, as a process that was started again."""
        self.actor = self.stage.actor(identity=Identity("", self.instance), id_required=True)
        self.next = self.join

    def act(self) -> None:
        """One step of a client's life."""
        self.next()

    def join(self) -> None:
        self.heard = len(self.actor.joins)
        self.next = self.hear_join
        self.actor.join()

    def hear_join(self) -> None:
        if len(self.actor.joins) == self.heard:
            return
        error = self.actor.joins[-1].error
        if error is ErrorCode.none:
            self.next = self.sync
        else:
            self.again(error)

    def sync(self) -> None:
        self.heard = len(self.actor.syncs)
        self.next = self.hear_sync
        everyone = {member.identity.member_id: b"part" for member in self.actor.joins[-1].members}
        self.actor.sync(everyone if self.actor.leads else None)

    def hear_sync(self) -> None:
        if len(self.actor.syncs) > self.heard:
            self.next = self.beat
            self.again(self.actor.syncs[-1].error)

    def beat(self) -> None:
        self.again(self.actor.beat())

    def lose_connection(self) -> None:
        """An answer that it waits for will not come: it asks again."""
        if self.next == self.hear_join:
            self.next = self.join
        elif self.next == self.hear_sync:
            self.next = self.sync

    def again(self, error: ErrorCode) -> None:
        """What an error makes a client do."""
        if error in {ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation, ErrorCode.member_id_required}:
            self.next = self.join
        elif error is not ErrorCode.none:
            self.start()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["act", "act", "all act", "all act", "die", "leave", "turn", "restart", "keep", "kill"]),
        st.integers(0, 4),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(
    delay_ms=st.sampled_from([0, 3000]),
    statics=st.sets(st.integers(0, 4)),
    keeps_late=st.booleans(),
    rounds=st.tuples(STEPS, STEPS),
)
def test_members_that_go_on_end_up_in_one_stable_generation(
    delay_ms: int, statics: set[int], keeps_late: bool, rounds: tuple[list[tuple[str, int]], ...]
) -> None:
    """And those that died are out, nobody is answered twice, and an empty group has no timer. The server may be killed
    at any time: a member that was told its part has it still."""
    stage = Stage(initial_rebalance_delay_ms=delay_ms, keeps_late=keeps_late)
    people = [Person(stage, index, index in statics) for index in range(5)]
    for steps in rounds:
        for what, index in steps:
            if what == "kill":
                kill(stage, people)
            elif what == "all act":
                for person in people * (1 + 2 * index):
                    take(stage, person, "act", index)
            else:
                take(stage, people[index], what, index)
            check(stage)
        settle(stage, [person for person in people if person.alive])


def take(stage: Stage, person: Person, what: str, seconds: int) -> None:
    """One random step."""
    if what == "keep":
        stage.keep()
    elif what == "turn":
        stage.scheduler.turn(seconds + 0.5)
    elif what == "restart":
        person.alive = True
        person.start()
    elif person.alive and what == "act":
        person.act()
    elif person.alive:
        if what == "leave":
            person.actor.leave()
        person.alive = False


def kill(stage: Stage, people: list[Person]) -> None:
    """Nobody who was told a part is in a generation that the next server does not know."""
    told = [
        (person.actor, stage.group.members.get(person.actor.identity.member_id))
        for person in people
        if person.next == person.beat
    ]
    generation = stage.group.generation
    stage.kill()
    for person in people:
        person.lose_connection()
    for actor, member in told:
        if member is None or actor.generation < generation:
            continue  # it is out, or the others have gone on without it
        again = stage.group.members.get(member.id)
        assert again is not None
        assert (stage.group.generation, again.assignment) == (actor.generation, actor.syncs[-1].assignment)


def settle(stage: Stage, living: list[Person]) -> None:
    """Let the living act for some minutes, and see that they have become a group."""
    for _ in range(200):
        for person in living:
            person.act()
        stage.keep()
        stage.scheduler.turn(1)
        check(stage)
    assert {member.id for member in stage.group.members} == {p.actor.identity.member_id for p in living}
    if living:
        assert stage.group.state is GroupState.STABLE
        assert all(p.actor.generation == stage.group.generation for p in living)
        assert all(p.actor.syncs[-1].assignment == b"part" for p in living)
        # static members may have come back under new ids since, so their number is what can be compared
        assert {len(p.actor.joins[-1].members) for p in living if p.actor.joins[-1].members} == {len(living)}
    else:
        assert stage.group.state is GroupState.EMPTY
        assert stage.scheduler.timers == 0


def check(stage: Stage) -> None:
    """What is true of a group at any time."""
    group = stage.group
    assert (group.members.leader is not None) == (len(group.members) > 0)
    assert group.members.leader is None or group.members.leader in group.members
    if group.state is GroupState.EMPTY:
        assert len(group.members) == 0
    if group.state is GroupState.STABLE:
        assert not any(member.awaits_join or member.awaits_sync for member in group.members)
