"""Every key under `meta/` is built in one place, listed with its value, and read in a version that is known."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.opening import Open

from fairlead.cluster import keys
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.jobs import JobRecord
from fairlead.cluster.values import CopyPermission, KafkaUpstream, LinkRecord, StreamSettings, UpstreamRecord
from fairlead.model.errors import BadRequest
from fairlead.model.limits import LEVEL_MAX, LEVEL_MIN
from fairlead.model.names import StreamPath
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.entries import put_entry

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "formats" / "cluster-log.md"
LINK = b"l" * 16


def listed() -> dict[str, set[str]]:
    """Fields of the value by the form of the key, as the page of formats has them."""
    rows = re.findall(r"^\| `(level|[a-z]+/[^`]+)` \|[^|]*\| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    named = {re.sub("<[a-z]+ id>", "<id>", key): set(re.findall(r"`([a-z_]+)`", value)) for key, value in rows}
    first, second = (key for key in named if key.startswith("upstream/"))
    named[second] |= named[first]  # "the same"
    return named


def form_of(key: str) -> str:
    """The key as the page of formats writes it, with every id called so."""
    named = re.sub(r"/mapr/[^#]*", "<source>", re.sub("[0-9a-f]{32}", "<id>", key))
    named = re.sub(r"^(kafka/<id>)/.*", r"\1/<name>", named)
    return re.sub(r"/[0-9]+$", "/<number>", named)


async def everything_written(cluster: Cluster, *, keep: bool = False) -> dict[str, Any]:
    """Every entry that a stream's life makes, by its key; the stream is deleted at the end unless `keep`."""
    stream = await cluster.create_stream("/ships", StreamSettings())
    await cluster.set_listener("/ships", 9192)
    await cluster.links.add(
        LinkRecord(LINK, stream.id, "/ships", StreamPath("/ships", "newyork"), ("http://a",), False, 0)
    )
    await cluster.links.add_upstream(UpstreamRecord(stream.id, StreamPath("/ships", "london")))
    for _ in range(2):
        await cluster.links.allow_copy(CopyPermission(stream.id, StreamPath("/ships", "london"), 0))
        await cluster.links.begin_copy(UpstreamRecord(stream.id, StreamPath("/ships", "london"), None, LINK))
    await cluster.kafka.add(
        KafkaUpstream(stream.id, "port", LINK, "/etc/port.config", "k", "ship-.*", "ship-0", paused=True)
    )
    job = JobRecord(LINK, "transfer", stream.id, "/ships", {"to": "/mapr/newyork/ships"}, 1, 0)
    await cluster.jobs.add(job, ["container-17"])
    found = dict(cluster.meta.state.entries)
    if keep:
        return found
    await cluster.delete_stream("/ships")
    return found | dict(cluster.meta.state.entries)


async def test_every_key_that_is_written_is_listed_with_the_fields_of_its_value(open_cluster: Open) -> None:
    """Both ways: what is listed is written."""
    written = await everything_written(await open_cluster("sanfrancisco"))
    assert {form_of(key): set(value) - {"v"} for key, value in written.items()} == listed()
    assert {key.partition("/")[0] for key in written} == keys.KINDS


def written_by() -> Iterator[tuple[str, ast.expr]]:
    """Where the code writes or deletes an entry, and the expression of its key."""
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {
                "put_entry",
                "put_record",
                "delete_entry",
            }:
                yield f"{file.name}:{node.lineno}", node.args[1]


def test_no_key_is_spelt_out_where_it_is_written() -> None:
    """A key that only its writer knew would be listed nowhere."""
    found = dict(written_by())
    assert len(found) >= 10
    assert [place for place, key in found.items() if isinstance(key, ast.JoinedStr | ast.Constant | ast.BinOp)] == []


@pytest.mark.parametrize("kind", sorted(keys.KINDS))
async def test_an_entry_of_a_later_version_is_refused_by_its_key(open_cluster: Open, kind: str) -> None:
    """Also by a program that would understand most of it; nothing is guessed and nothing deleted."""
    cluster = await open_cluster("sanfrancisco")
    key = f"{kind}/{LINK.hex()}"
    await cluster.meta.submit(lambda draft: put_entry(draft, key, {"v": 2, "path": "/ships"}))
    with pytest.raises(BadRequest, match=f"{key} has version 2; this program knows version 1"):
        await open_cluster("sanfrancisco")


@pytest.mark.parametrize("level", [LEVEL_MAX + 1, LEVEL_MIN - 1, None])
async def test_a_level_that_this_program_does_not_know_is_refused(open_cluster: Open, level: int | None) -> None:
    """It could not write what the programs beside it and after it rely on. A new cluster gets the highest."""
    cluster = await open_cluster("sanfrancisco")
    assert cluster.meta.state.entries[keys.LEVEL] == {"v": 1, "level": LEVEL_MAX}
    await cluster.meta.submit(lambda draft: put_entry(draft, keys.LEVEL, {"v": 1, "level": level}))
    with pytest.raises(BadRequest, match=rf"written at level {level}; this program knows level.*or a newer one"):
        await open_cluster("sanfrancisco")


async def test_what_a_newer_program_says_in_an_entry_outlives_an_edit(open_cluster: Open) -> None:
    """This program does not know what it means, and passes it on."""
    cluster = await open_cluster("sanfrancisco")
    await everything_written(cluster, keep=True)
    entries = dict(cluster.meta.state.entries)

    def later(draft: Draft) -> None:
        for key, value in entries.items():
            put_entry(draft, key, {**value, "later": [key]})

    await cluster.meta.submit(later)
    cluster = await open_cluster("sanfrancisco")
    stream = cluster.stream("/ships")
    await cluster.edit_stream("/ships", ttl_seconds=7)
    await cluster.set_listener("/ships", 9193)
    await cluster.links.edit(LINK, paused=True)
    await cluster.links.bind_upstream(cluster.links.upstreams(stream.id)[0], b"b" * 16)
    await cluster.links.allow_copy(CopyPermission(stream.id, StreamPath("/ships", "london"), 9))
    assert [key for key, value in cluster.meta.state.entries.items() if value.get("later") != [key]] == []
    assert cluster.meta.state.entries[keys.STREAM.key(stream.id)]["ttl_seconds"] == 7


async def test_a_kind_of_entry_that_is_not_known_is_left_alone(open_cluster: Open) -> None:
    """A later program may have written it."""
    cluster = await open_cluster("sanfrancisco")
    await cluster.meta.submit(lambda draft: put_entry(draft, "user/ann", {"v": 2}))
    again = await open_cluster("sanfrancisco")
    assert again.meta.state.entries["user/ann"] == {"v": 2}
