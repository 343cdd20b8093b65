"""Many seeded runs of four to eight sites: crashes, cuts, rollbacks, sleepers, merges, expiry, frames in any order.

Each seed is one run. Without being asked they are the first `FAIRLEAD_TEST_RUNS`;
`FAIRLEAD_TEST_SEEDS=<first>:<count>` chooses others, and a failure prints the seed. With
`FAIRLEAD_TEST_MUTATION=<name>` a rule is switched off meanwhile, to find seeds that notice it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.properties.actions import ANYTHING, FILTERED, FOLLOWED, FROM_NOW, GROUPS, LATE, MOVES, TAILS, Kind, Play
from tests.properties.answered import ANSWERED
from tests.properties.group_stories import GROUP_STORIES
from tests.properties.link_stories import LINK_STORIES
from tests.properties.mutations import MUTATIONS, off_as_asked
from tests.properties.named_stories import NAMED_STORIES
from tests.properties.named_worlds import NAMES
from tests.properties.returning import RETURNS
from tests.properties.shape import DIAMOND
from tests.properties.sites import RUNS, World
from tests.properties.stories import STORIES
from tests.properties.switching import switched_off
from tests.properties.wide import WIDE
from tests.support.directory import FaultyDirectory
from tests.support.disk import Disks

PARTS = 4
ON_DISK = RUNS // 10
RAM = "/dev/shm"
DIAMONDS = range(900, 910)
"""Seeds that are played on A → B → D and A → C → D, whatever shape they choose by themselves."""
FOUND = (10119, 10521, 681, 764, 1070)
"""Seeds of worlds where owners change often. A deleted topic that once got more partitions was merged, but for the row
that made it, and its log could not be opened without its checkpoint. What expired before and after a cut left one START
row behind it, so that a log told other epochs of the tail without its checkpoint."""
FOUND_AMONG_MANY = (700059,)
"""Of worlds of five to eight sites. What a site had written after a restore went into the same diverged topic as what a
neighbour had that its forced recovery did not wait for."""
AGAIN = 150
"""A change of the code moves what a seed does: if the recorded one notices no more that a rule is off, so many others
may."""


def seeds_of(part: int, count: int) -> list[int]:
    """The first ones of a part, or those that are asked for."""
    first, _, asked = os.environ.get("FAIRLEAD_TEST_SEEDS", "").partition(":")
    if first:
        return list(range(int(first) + part, int(first) + int(asked or 1), PARTS))
    return list(range(part * count, (part + 1) * count))


@contextmanager
def told(seed: int) -> Iterator[None]:
    """A failure says which seed it was."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"seed {seed}: again with make simulate SEEDS={seed}:1")
        raise


def play_all(seeds: Iterable[int], *kinds: Kind) -> None:
    """Each seed in a world of one of these kinds, without the rule that shall be off."""
    with off_as_asked(MUTATIONS):
        for seed in seeds:
            with told(seed):
                Play(seed, kind=kinds[seed % len(kinds)]).run()


@pytest.mark.parametrize("part", range(PARTS))
def test_no_record_is_lost_doubled_or_silently_missing(part: int) -> None:
    """At any moment; and when all is healed, all sites agree and nothing happens any more."""
    play_all(seeds_of(part, RUNS // PARTS), ANYTHING)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_record_is_silently_missing_where_topics_change_their_owners_often(part: int) -> None:
    play_all(seeds_of(part, RUNS // 3 // PARTS), MOVES)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_record_is_silently_missing_where_producers_follow_their_topics(part: int) -> None:
    """And none is there twice: they send again what the owner before has not answered."""
    play_all(seeds_of(part, RUNS // 10 // PARTS), FOLLOWED)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_record_is_silently_missing_where_a_new_owner_comes_in_the_middle_of_something(part: int) -> None:
    play_all(seeds_of(part, RUNS // 5 // PARTS), STORIES, LINK_STORIES)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_record_is_silently_missing_where_a_source_hears_of_owners_in_answers_alone(part: int) -> None:
    play_all(seeds_of(part, RUNS // 10 // PARTS), ANSWERED)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_record_is_silently_missing_where_links_leave_topics_out(part: int) -> None:
    """And nothing at all is told of a topic that a link leaves out."""
    play_all(seeds_of(part, RUNS // PARTS // 2), FILTERED)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_record_is_silently_missing_where_topics_share_names(part: int) -> None:
    """Every topic has one name at each site, what waits for a name loses nothing, and when people have decided, all
    sites agree on all topics."""
    play_all(seeds_of(part, RUNS // PARTS // 8), NAMES)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_record_is_silently_missing_where_a_topic_makes_room_in_the_middle_of_something(part: int) -> None:
    play_all(seeds_of(part, RUNS // PARTS // 10), NAMED_STORIES)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_record_is_silently_missing_where_links_begin_now(part: int) -> None:
    """What was there before may be missing, and that is told."""
    play_all(seeds_of(part, RUNS // PARTS // 2), *FROM_NOW)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_record_is_silently_missing_for_a_group_wherever_it_goes_on(part: int) -> None:
    """While topics change their owners, and logs are cut, below it."""
    play_all(seeds_of(part, RUNS // PARTS // 3), GROUPS, LATE, GROUP_STORIES)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_record_is_silently_missing_where_what_was_cut_off_is_claimed_or_deleted(part: int) -> None:
    play_all(seeds_of(part, RUNS // 3 // PARTS), TAILS)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_record_is_silently_missing_where_sites_are_put_back_to_their_backups_and_recover(part: int) -> None:
    """And what a neighbour has of a topic is back, while what was written since the backup is kept."""
    play_all(seeds_of(part, RUNS // 10 // PARTS), RETURNS)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_record_is_silently_missing_among_five_to_eight_sites(part: int) -> None:
    """Where groups go from site to site, topics are taken over, tails are claimed and sites recover."""
    play_all(seeds_of(part, RUNS // PARTS // 7), *WIDE)


@pytest.mark.parametrize("seed", FOUND)
def test_what_a_run_once_found_stays_mended(seed: int) -> None:
    with told(seed):
        Play(seed, kind=MOVES).run()


@pytest.mark.parametrize("seed", FOUND_AMONG_MANY)
def test_what_a_run_among_many_sites_once_found_stays_mended(seed: int) -> None:
    with told(seed):
        Play(seed, kind=WIDE[seed % len(WIDE)]).run()


@pytest.mark.parametrize("part", range(PARTS))
def test_nor_on_directories_with_packs(part: int) -> None:
    for seed in seeds_of(part, ON_DISK // PARTS):
        with told(seed):
            play_on_disk(seed)


def play_on_disk(seed: int) -> World:
    """One run, each site on a directory of its own; in memory if there is such a file system, which is faster."""
    with TemporaryDirectory(dir=RAM if os.access(RAM, os.W_OK) else None) as root, Disks().in_use() as disks:
        return Play(seed, lambda site: FaultyDirectory(disks.add(Path(root) / site))).run()


def test_a_replica_with_two_upstreams_that_expire_by_themselves() -> None:
    for seed in DIAMONDS:
        with told(seed):
            Play(seed, shape=DIAMOND).run()


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_rule_that_is_switched_off_is_noticed(name: str) -> None:
    """The recorded seed, or one near it, fails without the rule and passes with it."""
    rule = MUTATIONS[name]
    with switched_off(rule):
        seed = next((seed for seed in (rule.seed, *range(AGAIN)) if _fails(seed, rule.kind)), None)
    assert seed is not None, (
        f"no seed notices any more that {rule.name} is off; find one: make simulate MUTATION={rule.name} SEEDS=0:2000"
    )
    with told(seed):
        Play(seed, kind=rule.kind).run()


def _fails(seed: int, kind: Kind) -> bool:
    try:
        Play(seed, kind=kind).run()
    except Exception:
        return True
    return False


def test_every_rule_that_can_be_switched_off_stands_where_its_table_says() -> None:
    """Soon told: of a line that is written otherwise now, the seeds say so only after minutes."""
    for rule in MUTATIONS.values():
        with switched_off(rule):
            pass


def test_a_rule_that_is_not_in_the_code_any_more_cannot_be_switched_off() -> None:
    """Otherwise its test would show nothing."""
    rule = next(iter(MUTATIONS.values()))
    with pytest.raises(AssertionError, match="is not in"), switched_off(rule.replaced("no such line")):
        pass


PROGRAM = """
from tests.properties.actions import ANYTHING, FILTERED, FOLLOWED, FROM_NOW, GROUPS, MOVES, TAILS, Play
from tests.properties.answered import ANSWERED
from tests.properties.group_stories import GROUP_STORIES
from tests.properties.link_stories import LINK_STORIES
from tests.properties.named_stories import NAMED_STORIES
from tests.properties.named_worlds import NAMES
from tests.properties.returning import RETURNS
from tests.properties.stories import STORIES
from tests.properties.test_simulation import play_on_disk
from tests.properties.wide import WIDE
SMALL = (ANYTHING, MOVES, FOLLOWED, TAILS, NAMES, GROUPS, FILTERED, *FROM_NOW, RETURNS, STORIES, NAMED_STORIES)
for kind in (*SMALL, ANSWERED, GROUP_STORIES, LINK_STORIES, *WIDE):
    for seed in range(2):
        print(Play(seed, kind=kind).run().digest())
for seed in range(100, 103):
    print(play_on_disk(seed).digest())
"""


def test_a_seed_is_the_same_run_each_time() -> None:
    """In another process too, whose sets and dictionaries of texts have another order."""
    found: list[list[str]] = []
    for hash_seed in ("1", "2"):
        variables = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        printed = subprocess.check_output([sys.executable, "-c", PROGRAM], env=variables, text=True)
        found.append(printed.split())
    assert len(set(found[0])) == 41
    assert found[0] == found[1]
