"""The page for users of Kafka clients says what is served."""

import re
from pathlib import Path

from fairlead.broker.apis import APIS
from fairlead.broker.settings.kinds import NO_EFFECT
from fairlead.broker.settings.topic_settings import SETTINGS

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "kafka-clients.md"


def test_the_guide_lists_every_api_with_its_versions() -> None:
    """A new API or version is a line there."""
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)(?: to (\d+))? \|", GUIDE.read_text(), re.MULTILINE)
    told = {int(key): (name.lower(), int(low), int(high or low)) for key, name, low, high in rows}
    served = {key: (api.name.replace("_", ""), api.versions[0], api.versions[-1]) for key, api in APIS.items()}
    assert told == served


def test_the_guide_says_of_every_topic_setting_whether_it_has_an_effect() -> None:
    """And names no other. What a tool shows as the setting's documentation says the same."""
    section = GUIDE.read_text().split("\n## Settings of topics\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", section, re.MULTILINE)
    told = {name: "without effect" not in what for names, what in rows for name in re.findall(r"`([a-z0-9.]+)`", names)}
    told["remote.storage.enable"] = "`remote.storage.enable=true` is refused" not in section
    assert told == {name: setting.documentation != NO_EFFECT for name, setting in SETTINGS.items()}
