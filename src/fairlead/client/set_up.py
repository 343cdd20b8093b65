"""What the options of a link that is to be made say together; asked by the command line and by REST."""

from __future__ import annotations

from typing import Final

from fairlead.client.command import Given
from fairlead.model.errors import InvalidValue

FROM: Final = ("beginning", "now")


def is_from_now(given: Given) -> bool:
    """Whether the replica is to get only what is written from now on.

    Raises:
        InvalidValue: that cannot be, or not with another option.
    """
    said = given["from"] or "beginning"
    if said not in FROM:
        raise InvalidValue(f"-from {said!r}: use one of {', '.join(FROM)}")
    if said == "now" and given["directcopy"] is False:
        raise InvalidValue("-directcopy false copies what is there, -from now leaves it out; give one of them")
    return said == "now"
