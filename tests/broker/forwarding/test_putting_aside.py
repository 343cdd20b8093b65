"""What is known of a batch that was put aside, by how its commit ended."""

from __future__ import annotations

import pytest

from fairlead.broker.forwarding.known import End
from fairlead.broker.forwarding.putting_aside import _end
from fairlead.model.errors import FairleadError, OutOfOrderSequence, StorageFull, StorageUnavailable


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (StorageFull("disk", 1, 2), End.NOT_DONE),
        (OutOfOrderSequence("another one comes first"), End.NOT_DONE),
        (StorageUnavailable("the outcome stays unknown"), End.UNKNOWN),
    ],
)
def test_what_may_be_there_after_a_restart_is_not_taken_for_refused(error: FairleadError, end: End) -> None:
    """Else the batch would go to the owner when it comes again, and once more by the claim."""
    assert _end(error) is end
