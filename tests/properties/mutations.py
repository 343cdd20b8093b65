"""The rules that are switched off one at a time."""

from __future__ import annotations

from tests.properties.mutations_of_cursors import OF_CURSORS
from tests.properties.mutations_of_cuts import OF_CUTS
from tests.properties.mutations_of_links import OF_LINKS
from tests.properties.mutations_of_names import OF_NAMES
from tests.properties.mutations_of_owners import OF_OWNERS
from tests.properties.mutations_of_stories import OF_STORIES

MUTATIONS = {each.name: each for each in (*OF_LINKS, *OF_OWNERS, *OF_CUTS, *OF_STORIES, *OF_CURSORS, *OF_NAMES)}
