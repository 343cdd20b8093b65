"""`cluster add` and what it enters, with servers that are not what they should be."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from fairlead.model.envelope import envelope, error_envelope
from fairlead.model.errors import NotAllowed
from tests.cli.desk import CommandLine

INFO = {"name": "lisbon", "kafka": ["127.0.0.1:1"]}


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What every server answers, of HTTP `status` 200; nothing where it is empty."""
    said: dict[str, Any] = {}

    def answered(request: httpx.Request) -> httpx.Response:
        if not said:
            raise httpx.ConnectError("refused")
        return httpx.Response(said.get("code", 200), json=said["json"])

    monkeypatch.setattr(httpx, "Client", partial(httpx.Client, transport=httpx.MockTransport(answered)))
    return said


@pytest.mark.parametrize(
    ("code", "json", "said"),
    [
        (200, {"status": "ok"}, "is not a Fairlead server: it says neither its name nor its addresses"),
        (200, {"data": [{"name": 7, "kafka": []}]}, "is not a Fairlead server"),
        (200, {"data": [{"name": "lisbon", "kafka": "h:1"}]}, "is not a Fairlead server"),
        (200, {"data": [{"name": "lisbon", "kafka": ["h"]}]}, "Kafka address of lisbon 'h': write HOST:PORT"),
        (200, {"data": ["lisbon"]}, "is not a Fairlead server"),
        (200, {"data": 5}, "is not a Fairlead server"),
        (200, ["a page"], "is not a Fairlead server"),
        (403, error_envelope(NotAllowed("not you"), 0), "not you"),
    ],
)
def test_what_is_no_server_or_refuses_is_not_entered(
    empty: CommandLine, answer: dict[str, Any], tmp_path: Path, code: int, json: Any, said: str
) -> None:
    """Nor does it keep `status` from showing the other clusters where it stands in the book already."""
    answer.update(code=code, json=json)
    for name in ("", "-name lisbon"):
        empty.refused(f"cluster add {name} -http http://h:1", said)
    assert empty.ok("cluster list").out == "(none)\n"
    (tmp_path / "clusters.toml").write_text('[clusters.lisbon]\nhttp = ["http://h:1"]\n')
    if json != {"data": [{"name": "lisbon", "kafka": ["h"]}]}:
        done = empty("status --json")
        assert (done.code, [row["state"] for row in done.json]) == (1, ["down"])


def test_one_that_does_not_answer_is_entered_by_its_name(empty: CommandLine, answer: dict[str, Any]) -> None:
    """It may not have begun yet. One that answers says the rest itself."""
    empty.ok("cluster add -name lisbon -http http://h:1")
    assert empty.ok("cluster list -json").json[0]["kafka"] == []
    answer["json"] = envelope([INFO], 0)
    empty.ok("cluster add -http http://h:1")
    assert empty.ok("cluster list -json").json[0]["kafka"] == INFO["kafka"]
    empty.refused("cluster add -name porto -http http://h:1", "is called lisbon")


def test_a_cluster_needs_an_address(empty: CommandLine, answer: dict[str, Any], tmp_path: Path) -> None:
    """The entry that was there stays. One without an address, which could be entered once, is told of."""
    empty.ok("cluster add -name lisbon -http http://h:1")
    for text in ("", ",", "%20,"):
        line = f"cluster add -name lisbon -http={text} -kafka h:1"
        empty.refused(line.replace("%20", ""), "give the address of the cluster, http://HOST:PORT")
    assert empty.ok("cluster list -json").json[0]["http"] == ["http://h:1"]
    (tmp_path / "clusters.toml").write_text("[clusters.lisbon]\nhttp = []\n")
    for line in ("replicator --data x", "stream list"):
        empty.refused(line, "address")
