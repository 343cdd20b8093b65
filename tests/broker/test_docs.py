"""The page for users of Kafka clients says what is served."""

import re
from pathlib import Path

from fairlead.broker.apis import APIS

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "kafka-clients.md"


def test_the_guide_lists_every_api_with_its_versions() -> None:
    """A new API or version is a line there."""
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)(?: to (\d+))? \|", GUIDE.read_text(), re.MULTILINE)
    told = {int(key): (name.lower(), int(low), int(high or low)) for key, name, low, high in rows}
    served = {key: (api.name.replace("_", ""), api.versions[0], api.versions[-1]) for key, api in APIS.items()}
    assert told == served
