"""The exact entries of a cluster's own log, what an older or newer version's entries mean, and `cluster.json`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.spoiled import with_more, without_each

from fairlead.cluster.cluster import identify
from fairlead.cluster.values import (
    Begin,
    LinkRecord,
    StreamRecord,
    StreamSettings,
    UpstreamRecord,
    link_from_json,
    link_json,
    stream_from_json,
    stream_json,
    upstream_from_json,
    upstream_json,
)
from fairlead.model.errors import BadRequest, Damaged, InvalidValue
from fairlead.model.names import StreamPath, parse_stream_path
from fairlead.storage.memory import MemoryStorage

ID, SOURCE, REPLICA = b"\xab" * 16, b"s" * 16, b"d" * 16
SETTINGS = (
    '"ttl_seconds": 604800, "autocreate": true, "default_partitions": 1, "compression": "off", '
    '"timestamp_type": "createtime", "pid_expiry_seconds": 604800, "produceperm": "", "consumeperm": "", '
    '"topicperm": "", "copyperm": "", "adminperm": "", "shards": 1, "created_at": 0, "forward_writes": false, '
    '"pending": false, "conflicts": "setaside"}'
)
LATER = (
    '"topics": null, "exclude_topics": null, "cursors": "all", "filter_next": null, "side_copy": null, '
    '"widened": null, "prefix": "", "begin": []}'
)
"""Of a link."""
LINKS = [
    (
        LinkRecord(ID, SOURCE, "/flöte", parse_stream_path("/mapr/newyork/ships"), (), False, 1_700),
        '{"v": 1, "source": "' + "73" * 16 + '", "source_path": "/fl\\u00f6te", "replica_path": "/mapr/newyork/ships", '
        '"replica_urls": [], "paused": false, "created_at": 1700, "forward": "all", "replica_stream": null, '
        '"once": null, "rescan": 0, "created": [], "peer": "own", "ownership": null, "accept_writes": false, ' + LATER,
    ),
    (
        LinkRecord(
            ID,
            SOURCE,
            "/ships",
            StreamPath("/r"),
            ("http://a", "http://b"),
            True,
            0,
            "own",
            REPLICA,
            (3, 2**63),
            2,
            (7,),
            "partner",
            True,
        ),
        '{"v": 1, "source": "' + "73" * 16 + '", "source_path": "/ships", "replica_path": "/r", '
        '"replica_urls": ["http://a", "http://b"], "paused": true, "created_at": 0, "forward": "own", '
        '"replica_stream": "' + "64" * 16 + '", "once": [3, 9223372036854775808], "rescan": 2, "created": [7], '
        '"peer": "partner", "ownership": true, "accept_writes": false, ' + LATER,
    ),
    (
        LinkRecord(ID, SOURCE, "/s", StreamPath("/r"), (), False, 0, begin=(Begin(7, (1, 2)), Begin(2**40, (0,)))),
        '{"v": 1, "source": "' + "73" * 16 + '", "source_path": "/s", "replica_path": "/r", '
        '"replica_urls": [], "paused": false, "created_at": 0, "forward": "all", "replica_stream": null, '
        '"once": null, "rescan": 0, "created": [], "peer": "own", "ownership": null, "accept_writes": false, '
        + LATER.replace("[]}", '[{"commit": 7, "counters": [1, 2]}, {"commit": 1099511627776, "counters": [0]}]}'),
    ),
]
UPSTREAMS = [
    (
        UpstreamRecord(ID, StreamPath("/b", "a")),
        (
            '{"v": 1, "path": "/mapr/a/b", "source_stream": null, "once_link": null, "peer": "own", "origins": [], '
            '"ownership": null, "source_urls": [], "multimaster": false, "links": []}'
        ),
    ),
    (
        UpstreamRecord(ID, StreamPath("/b", "a"), SOURCE, REPLICA, "partner", (ID,), False, links=(ID,)),
        '{"v": 1, "path": "/mapr/a/b", "source_stream": "' + "73" * 16 + '", "once_link": "' + "64" * 16 + '", '
        '"peer": "partner", "origins": ["' + "ab" * 16 + '"], "ownership": false, '
        '"source_urls": [], "multimaster": false, "links": ["' + "ab" * 16 + '"]}',
    ),
]
CLUSTER = '{"version":3,"name":"sanfrancisco","id":"' + "ab" * 16 + '","checksum":"32f972cf"}'


def test_a_stream_is_this_entry() -> None:
    """Its settings side by side with its path."""
    record = StreamRecord(ID, "/ships", StreamSettings())
    assert json.dumps(stream_json(record)) == '{"v": 1, "path": "/ships", ' + SETTINGS
    assert stream_from_json(ID, stream_json(record)) == record
    other = StreamRecord(
        ID, "/x", StreamSettings(0, False, 3, "lz4", "logappendtime", 1, "u:ü", shards=2, created_at=5)
    )
    assert stream_from_json(ID, json.loads(json.dumps(stream_json(other)))) == other


def test_of_a_stream_what_is_missing_has_its_default_and_what_is_unknown_is_left_out() -> None:
    """Versions before and after this one."""
    assert stream_from_json(ID, {"v": 1, "path": "/x", "more": 1}) == StreamRecord(ID, "/x", StreamSettings())
    with pytest.raises(Exception, match="path"):
        stream_from_json(ID, {"v": 1})
    with pytest.raises(InvalidValue, match="shards 0: use a number from 1 to"):
        stream_from_json(ID, {"v": 1, "path": "/x", "shards": 0})


@pytest.mark.parametrize(("link", "text"), LINKS)
def test_a_link_is_this_entry(link: LinkRecord, text: str) -> None:
    """Its id is in the key."""
    assert json.dumps(link_json(link)) == text
    assert link_from_json(ID, json.loads(text)) == link
    assert link_from_json(ID, json.loads(with_more(text))) == link


def test_of_a_link_what_came_later_may_be_missing() -> None:
    """And nothing else."""
    link, text = LINKS[0]
    later = ("v", "forward", "replica_stream", "once", "rescan", "created", "peer", "ownership", "accept_writes")
    later += tuple(json.loads("{" + LATER))
    data = {name: value for name, value in json.loads(text).items() if name not in later}
    assert link_from_json(ID, data) == link
    for field, shorter in without_each(text, *later).items():
        with pytest.raises(Exception, match=field):
            link_from_json(ID, json.loads(shorter))


@pytest.mark.parametrize(("upstream", "text"), UPSTREAMS)
def test_an_upstream_is_this_entry(upstream: UpstreamRecord, text: str) -> None:
    """The stream is in the key."""
    assert json.dumps(upstream_json(upstream)) == text
    assert upstream_from_json(ID, json.loads(text)) == upstream
    assert upstream_from_json(ID, json.loads(with_more(text))) == upstream
    assert upstream_from_json(ID, {"path": "/mapr/a/b"}) == UPSTREAMS[0][0]


@pytest.mark.parametrize("wrong", [{"source": "zz"}, {"source": None}, {"source": 5}, {"once": 5}])
def test_a_link_of_another_shape_is_refused(wrong: dict[str, Any]) -> None:
    """The server does not start with it."""
    with pytest.raises((ValueError, TypeError)):
        link_from_json(ID, {**json.loads(LINKS[1][1]), **wrong})


class Fixed:
    """Randomness that is none."""

    def id16(self) -> bytes:
        return ID


def _identity(text: str | bytes) -> bytes:
    storage = MemoryStorage()
    storage.put_if_absent("cluster.json", text if isinstance(text, bytes) else text.encode())
    return identify(storage, "sanfrancisco", Fixed())


def test_a_cluster_is_described_by_these_bytes() -> None:
    """Written once, read at each start."""
    storage = MemoryStorage()
    assert identify(storage, "sanfrancisco", Fixed()) == ID
    assert storage.get("cluster.json") == CLUSTER.encode()
    assert _identity(CLUSTER) == ID


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "7", *without_each(CLUSTER).values(), with_more(CLUSTER), CLUSTER + "\n"]
)
def test_what_does_not_describe_a_cluster_is_damage(text: str) -> None:
    """The server does not start."""
    with pytest.raises(Damaged, match=r"cluster\.json: not the description of a cluster"):
        _identity(text)


def test_a_change_of_any_byte_of_the_description_is_refused() -> None:
    """Another digit of the id would be another cluster. A byte of the version may make it another version."""
    for place in range(len(CLUSTER)):
        for bit in (1, 0x20):
            text = bytearray(CLUSTER.encode())
            text[place] ^= bit
            with pytest.raises((Damaged, BadRequest), match=r"not the description of a cluster|has format version"):
                _identity(bytes(text))


def test_a_description_that_is_missing_beside_a_cluster_is_damage() -> None:
    """A new id in its place would lead the links of other clusters to nowhere, and silently."""
    for there in ("meta/epoch/00000000000000000001", "streams/x"):
        storage = MemoryStorage()
        storage.put_if_absent(there, b"")
        with pytest.raises(Damaged, match=rf"cluster\.json: the description of the cluster is missing, and {there}"):
            identify(storage, "sanfrancisco", Fixed())
        assert storage.size("cluster.json") is None


def test_another_version_or_cluster_is_refused() -> None:
    """Naming both. The version comes first: what an older or newer one says besides is not judged."""
    with pytest.raises(BadRequest, match=r"has format version 2; this program knows version 3\. .*start with a new"):
        _identity('{"version": 2, "name": "sanfrancisco", "id": "' + "ab" * 16 + '"}')
    storage = MemoryStorage()
    storage.put_if_absent("cluster.json", CLUSTER.encode())
    with pytest.raises(BadRequest, match="belongs to cluster sanfrancisco, not newyork"):
        identify(storage, "newyork", Fixed())
