"""A process that opens a log in a directory and produces the words of each line that it reads.

It says the number of its topic, then what became of each word: the offset, or the kind of the error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.streamlog.world import made, opened, produced
from tests.support.packs import always_packed

from fairlead.model.errors import FairleadError


def main() -> None:
    log = opened(always_packed(Path(sys.argv[1])))
    number = made(log).number
    print(number, flush=True)
    for line in sys.stdin:
        for word in line.split():
            try:
                print(produced(log, number, word.encode()).base_offset, flush=True)
            except FairleadError as error:
                print(type(error).__name__, flush=True)


if __name__ == "__main__":
    main()
