"""What the help says of options."""

from __future__ import annotations

from fairlead.client.catalog import COMMANDS


def test_the_help_names_kafka_s_clusters_where_they_are_taken() -> None:
    """And not at `replica add` and `upstream add` and `edit`, which refuse them."""
    named = {
        f"{command.path.removeprefix('/rest/stream/')} -{param.name}"
        for command in COMMANDS
        for param in command.params
        if "kafka://NAME" in param.what and not param.what.startswith("of kafka://NAME")
    }
    of_replica = ("autosetup", "edit", "list", "pause", "remove", "resume")
    assert named == {
        *(f"replica/{each} -path" for each in of_replica),
        *("topic/takeover -from", "upstream/remove -upstream"),
    }
