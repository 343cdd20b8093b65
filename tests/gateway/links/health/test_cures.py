"""Which command mends a link: it is a command that there is, with options that it has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairlead.cli.argv import normalise
from fairlead.cli.program import tree
from fairlead.cluster.values import LinkRecord
from fairlead.gateway.links.errors import LinkStalled, ReplicatorDown, RolledBack, StreamChanged
from fairlead.gateway.links.health.cures import cure
from fairlead.model.errors import FairleadError, NotAgreed, StorageFull, UnknownStream, Unreachable
from fairlead.model.names import StreamPath

SOURCE = StreamPath("/ships", "sf")
RECORD = LinkRecord(
    b"l" * 16, b"s" * 16, "/ships", StreamPath("/ships", "ny"), ("http://b",), paused=False, created_at=1
)


@pytest.mark.parametrize("kind", [NotAgreed, StreamChanged, RolledBack, UnknownStream, Unreachable, LinkStalled])
def test_an_error_names_commands_that_there_are(kind: type[FairleadError]) -> None:
    """With the paths of both streams, so that it runs wherever both clusters are known."""
    for line in cure(kind("x"), SOURCE, RECORD).split(" && "):
        fairlead, *words = line.split()
        assert fairlead == "fairlead"
        command = tree()
        for word in words:
            if word.startswith("-"):
                break
            command = command.commands[word]
        options = {name for param in command.params for name in param.opts}
        assert {word for word in normalise(words, tree()) if word.startswith("--")} <= options | {"--rescan=true"}
        assert kind in {Unreachable, RolledBack} or "/mapr/ny/ships" in line


def test_a_source_that_was_rolled_back_is_recovered_or_where_only_a_partner_says_so_rescanned() -> None:
    """A partner's word brings nothing back."""
    assert cure(RolledBack("x"), SOURCE, RECORD) == "fairlead stream recover -path /mapr/sf/ships"
    partner = replace(RECORD, peer="partner")
    assert cure(RolledBack("x"), SOURCE, partner).startswith("fairlead stream replica resume -path /mapr/sf/ships")


@pytest.mark.parametrize("error", [ReplicatorDown("x"), StorageFull("x", 1, 2)])
def test_what_no_command_mends_names_none(error: FairleadError) -> None:
    """Its message says what to do."""
    assert cure(error, SOURCE, RECORD) == ""
