"""The rules that are switched off one at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from tests.properties.mutations_of_cursors import OF_CURSORS
from tests.properties.mutations_of_cuts import OF_CUTS
from tests.properties.mutations_of_links import OF_LINKS
from tests.properties.mutations_of_names import OF_NAMES
from tests.properties.mutations_of_owners import OF_OWNERS
from tests.properties.mutations_of_partners import OF_PARTNERS
from tests.properties.mutations_of_pending import OF_PENDING
from tests.properties.mutations_of_returns import OF_RETURNS
from tests.properties.mutations_of_stories import OF_STORIES
from tests.properties.switching import Mutation, switched_off

_OF_WORLDS = (*OF_LINKS, *OF_OWNERS, *OF_PARTNERS, *OF_CUTS, *OF_CURSORS, *OF_NAMES, *OF_RETURNS)
_OF_ALL = (*_OF_WORLDS, *OF_STORIES)
MUTATIONS = {each.name: each for each in _OF_ALL}
PENDING = {each.name: each for each in OF_PENDING}
"""Of what is put aside while an owner is away, which has a simulation of its own."""


def off_as_asked(rules: Mapping[str, Mutation]) -> AbstractContextManager[None]:
    """Switches off the rule that `FAIRLEAD_TEST_MUTATION` names, if it is one of these."""
    name = os.environ.get("FAIRLEAD_TEST_MUTATION")
    assert not name or name in {**MUTATIONS, **PENDING}, f"there is no rule {name}"
    return switched_off(rules[name]) if name and name in rules else nullcontext()
