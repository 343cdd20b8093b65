"""What becomes of MirrorMaker 2's property file."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.mirror.mm2.config import flows_of
from fairlead.mirror.options import Heartbeats, OffsetSyncs
from fairlead.mirror.told.command_line import checked
from fairlead.mirror.told.files import Flow
from fairlead.mirror.told.words import Words
from fairlead.model.errors import InvalidValue

TWO = """
clusters = A, B
A.bootstrap.servers = a1:9092, a2:9092
B.bootstrap.servers = b1:9092
A->B.enabled = true
"""
POLICY = "org.apache.kafka.connect.mirror."


class Reading:
    """A file, and what was said of it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "mm2.properties"
        self.warnings: list[str] = []

    def __call__(self, text: str, **given: object) -> list[Flow]:
        self.file.write_text(text)
        return flows_of(checked(Words(mm2_config=self.file, **given)), self.warnings.append)  # type: ignore[arg-type]

    def one(self, text: str = "", **given: object) -> Flow:
        """The one flow of the least file and these lines."""
        (flow,) = self(TWO + text, **given)
        return flow


@pytest.fixture
def read(tmp_path: Path) -> Reading:
    return Reading(tmp_path)


def chosen(flow: Flow, *topics: str) -> list[str]:
    return flow.options.chosen.among(topics)


def test_the_least_file_is_a_flow_with_mirrormaker_2s_defaults(read: Reading) -> None:
    """All topics, the alias before their names, two replicas, one stream, heartbeats at both ends each second."""
    flow = read.one()
    assert (flow.label, flow.name) == ("A->B", "mm2.A.B")
    assert [source.label for source in flow.sources] == ["A"]
    assert [str(each) for each in flow.sources[0].settings.client.bootstrap] == ["a1:9092", "a2:9092"]
    assert [str(each) for each in flow.destination.client.bootstrap] == ["b1:9092"]
    options = flow.options
    assert (options.prefix, options.replication, options.streams) == ("A.", 2, 1)
    assert options.preserve_partitions
    assert options.grows_all
    assert options.heartbeats == Heartbeats(1.0, at_source=True, at_target=True, replication=3)
    assert flow.sources[0].settings.group_id is None
    assert read.warnings == []


INTERNAL = [
    "__offsets",
    ".x",
    "mm2-configs.A.internal",
    "mm2-offset-syncs.B.internal",
    "A.checkpoints.internal",
    "mm2-offset-syncs_B_internal",
    "A_checkpoints_internal",
]


def test_topics_that_are_never_mirrored_are_mirrormaker_2s(read: Reading) -> None:
    """Replicas of the old kind and internal ones, as they are named with its separator; heartbeats go, after any
    number of hops. Names that end in `internal` are as any others, since Kafka 4.0."""
    topics = ["t", "t.replica", "x-internal", "x.internal", "C.heartbeats", *INTERNAL]
    usual = chosen(read.one(), *topics)
    assert usual == ["A_checkpoints_internal", "C.heartbeats", "mm2-offset-syncs_B_internal", "t", *topics[2:4]]
    lines = "topics.exclude = none\nreplication.policy.separator = _\n"
    assert chosen(read.one(lines), *topics) == ["C.heartbeats", "t", "t.replica", "x-internal", "x.internal"]
    lines += "replication.policy.internal.topic.separator.enabled = false\n"
    assert "mm2-offset-syncs_B_internal" in chosen(read.one(lines), *topics)


def test_topics_and_exceptions_are_lists_of_expressions(read: Reading) -> None:
    """Exceptions win; what is said for a flow wins over what is said for all; old names are taken."""
    text = "topics = no\nA->B.topics = ships.*, ports\nA->B.topics.blacklist = .*-test , ships-old\n"
    flow = read.one(text)
    assert chosen(flow, "ships", "ships-old", "ships-test", "ports", "ports2", "no", "heartbeats") == [
        "heartbeats",
        "ports",
        "ships",
    ]
    flow = read.one(text + "heartbeats.replication.enabled = false")
    assert chosen(flow, "heartbeats", "ships") == ["ships"]


def test_the_identity_policy_leaves_names_alone(read: Reading) -> None:
    """Another one is refused, as is each class that cannot be run."""
    flow = read.one(f"replication.policy.class = {POLICY}IdentityReplicationPolicy\n")
    assert flow.options.prefix == ""
    assert read.one("replication.policy.separator = _\n").options.prefix == "A_"
    with pytest.raises(InvalidValue, match=r"A->B: replication\.policy\.class is com\.acme\.Mine; .* --prefix"):
        read.one("replication.policy.class = com.acme.Mine\n")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("transforms = route", "transforms .*--message.handler"),
        ("A->B.predicates = p", "predicates .*--message.handler"),
        ("topic.filter.class = com.acme.F", "topic.filter.class .*topics.exclude"),
        ("group.filter.class = com.acme.F", "group.filter.class .*groups.exclude"),
        ("config.property.filter.class = com.acme.F", "config.properties.exclude"),
        ("forwarding.admin.class = com.acme.F", "forwarding.admin.class .*made"),
        ("config.providers = file", "config.providers .*values themselves"),
        ("topics = [", r"A->B: topics '\['"),
        ("tasks.max = 0", "tasks.max"),
        ("replication.factor = x", "replication.factor"),
        ("A->B.emit.heartbeats.enabled = maybe", "emit.heartbeats.enabled is 'maybe'"),
        ("A->C.enabled = true", "clusters = A, B"),
        ("A.security.protocol = NONE", "A->B, consumer: security.protocol"),
    ],
)
def test_what_is_wrong_or_cannot_be_done_is_an_error_that_names_it(read: Reading, line: str, said: str) -> None:
    """With what to use instead."""
    with pytest.raises(InvalidValue, match=said):
        read.one(line + "\n")


def test_the_classes_that_are_the_default_may_be_named(read: Reading) -> None:
    """Many files have them."""
    read.one(f"topic.filter.class = {POLICY}DefaultTopicFilter\ntransforms =\n")
    assert read.warnings == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("topic = t", "topic is nothing that MirrorMaker 2 knows"),
        ("A->B.topiks = t", "topiks is nothing that MirrorMaker 2 knows"),
        ("C.bootstrap.servers = c:1", "C.bootstrap.servers is nothing that MirrorMaker 2 knows"),
        ("A.tasks.max = 4", "A: tasks.max has no effect here"),
        ("A.consumer.fetch.max.bites = 1", "fetch.max.bites is no setting"),
        ("errors.tolerance = all", "errors.tolerance has no effect here: what passes is tried again"),
        ("listeners = http://:8083", "listeners has no effect here: --http"),
        ("B.offset.storage.replication.factor = 1", "there are no Connect workers"),
        ("offset.storage.replication.factor = 1", "there are no Connect workers"),
        ("A.admin.retries = 3", "admin.retries has no effect here"),
    ],
)
def test_a_key_without_effect_is_a_warning_that_names_it(read: Reading, line: str, said: str) -> None:
    """Once, however many flows there are."""
    read(TWO + "B->A.enabled = true\n" + line + "\n")
    assert len(read.warnings) == 1, read.warnings
    assert said in read.warnings[0]


def test_settings_of_clients_go_from_the_general_to_the_special(read: Reading) -> None:
    """For all clusters, for a flow, for one cluster, for its consumers or producers, for those of a flow; that is
    MirrorMaker 2's order."""
    lines = """
    security.protocol = SSL
    B.security.protocol = PLAINTEXT
    consumer.fetch.max.bytes = 1
    A.consumer.fetch.max.bytes = 2
    A.consumer.max.partition.fetch.bytes = 20
    A->B.consumer.fetch.max.bytes = 3
    A->B.consumer.fetch.max.wait.ms = 30
    A->B.consumer.fetch.min.bytes = 31
    A->B.source.consumer.fetch.min.bytes = 32
    B.producer.max.request.size = 4
    A->B.producer.override.max.request.size = 5
    B.consumer.fetch.max.bytes = 6
    """
    flow = read.one(lines)
    consumer, producer = flow.sources[0].settings, flow.destination
    assert (consumer.fetch.max_bytes, consumer.fetch.partition_bytes) == (2, 20)
    assert (consumer.fetch.max_wait_ms, consumer.fetch.min_bytes) == (30, 32)
    assert consumer.client.security.tls is not None
    assert producer.client.security.tls is None
    assert producer.produce.request_bytes_max == 5


def test_credentials_are_read_from_the_file_again(read: Reading) -> None:
    """For each connection, so a password can be changed while it runs."""
    lines = (
        "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\nA.sasl.username = me\nA.sasl.password = {}\n"
    )
    client = read.one(lines.format("old")).sources[0].settings.client
    read.file.write_text(TWO + lines.format("new"))
    assert client.security_now is not None
    again = client.security_now().sasl
    assert client.security.sasl is not None
    assert again is not None
    assert (client.security.sasl.password, again.password) == ("old", "new")  # type: ignore[union-attr]


def test_several_flows_are_several_mirrors(read: Reading) -> None:
    """Each with its name, its options and its clusters; `--clusters` chooses by their targets, as in Java's script."""
    text = """
    clusters = A, B, C
    A.bootstrap.servers = a:1
    B.bootstrap.servers = b:1
    C.bootstrap.servers = c:1
    A->B.enabled = true
    A->C.enabled = true
    B->A.enabled = true
    A->C.topics = only-c
    emit.heartbeats.enabled = false
    """
    flows = read(text)
    assert [(flow.label, flow.name) for flow in flows] == [
        ("A->B", "mm2.A.B"),
        ("A->C", "mm2.A.C"),
        ("B->A", "mm2.B.A"),
    ]
    assert [chosen(flow, "t", "only-c") for flow in flows] == [["only-c", "t"], ["only-c"], ["only-c", "t"]]
    assert [flow.label for flow in read(text, clusters=["A,C"])] == ["A->C", "B->A"]
    assert [flow.name for flow in read(text, clusters=["C"], name="mine")] == ["mine"]
    assert next(flow.name for flow in read(text, name="mine")) == "mine.A.B"
    with pytest.raises(InvalidValue, match="--clusters D"):
        read(text, clusters=["D"])


def test_heartbeats_of_the_way_back_are_written_by_the_flow_back_if_it_runs(read: Reading) -> None:
    """MirrorMaker 2 has a heartbeat connector for each pair, enabled or not."""
    assert read.one().options.heartbeats == Heartbeats(1.0, at_source=True, at_target=True, replication=3)
    there, back = read(TWO + "B->A.enabled = true\nemit.heartbeats.interval.seconds = 5\n")
    assert there.options.heartbeats == Heartbeats(5.0, at_source=False, at_target=True, replication=3)
    assert back.options.heartbeats == there.options.heartbeats
    heartbeats = read.one("B->A.emit.heartbeats.enabled = false\n").options.heartbeats
    assert heartbeats is not None
    assert not heartbeats.at_source
    assert read.one("emit.heartbeats.enabled = false\n").options.heartbeats is None


def test_offset_syncs_are_written_where_the_file_asks_for_them(read: Reading) -> None:
    """MirrorMaker 2 writes them by default, for its own checkpoints, which are exact here without them."""
    assert read.one().options.offset_syncs is None
    lines = "emit.offset-syncs.enabled = true\noffset-syncs.topic.location = target\noffset.lag.max = 5\n"
    assert read.one(lines).options.offset_syncs == OffsetSyncs(at_source=False, lag_max=5, replication=3)


def test_exactly_once_is_the_targets_and_preparing_is_not_it(read: Reading) -> None:
    """The command line may ask for it too."""
    assert not read.one().options.exactly_once
    assert not read.one("A.exactly.once.source.support = enabled\n").options.exactly_once
    assert not read.one("exactly.once.source.support = preparing\n").options.exactly_once
    assert read.one("exactly.once.source.support = enabled\n").options.exactly_once
    both = "exactly.once.source.support = {}\nB.exactly.once.source.support = {}\n"
    assert read.one(both.format("disabled", "enabled")).options.exactly_once
    assert not read.one(both.format("enabled", "disabled")).options.exactly_once
    read.warnings.clear()
    assert read.one("B.exactly.once.source.support = enabled\n").options.exactly_once
    assert read.warnings == []
    assert read.one(exactly_once=True).options.exactly_once


def test_exactly_once_is_carried_by_either_engine(read: Reading) -> None:
    """As the command line says."""
    lines = "B.exactly.once.source.support = enabled\n"
    assert (read.one(lines).options.engine, read.one(lines, engine="local").options.engine) == ("spark", "local")


def test_how_often_is_mirrormaker_2s_where_it_is_said(read: Reading) -> None:
    """New topics are looked for each ten seconds otherwise, ten minutes being long."""
    assert read.one().paces.topics == 10
    assert read.one("refresh.topics.interval.seconds = 30\n").paces.topics == 30
    assert read.one("refresh.topics.enabled = false\n").paces.topics > 1e8


def test_groups_are_moved_as_mirrormaker_2_is_told(read: Reading) -> None:
    """By default checkpoints alone."""
    usual = read.one()
    assert (usual.options.groups.sync, usual.options.groups.checkpoints, usual.paces.groups) == (False, True, 5)
    names = ["orders", "console-consumer-1", "connect-x", "__x"]
    assert usual.options.groups.chosen.among(names) == ["orders"]
    asked = read.one(
        "sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 9\n"
        "groups = o.*, c.*\ngroups.exclude = connect.*\nemit.checkpoints.enabled = false\n",
        groups_rewind=True,
    )
    groups = asked.options.groups
    assert (groups.sync, groups.checkpoints, groups.rewind, asked.paces.groups) == (True, False, True, 9)
    assert groups.chosen.among(names) == ["console-consumer-1", "orders"]
    assert read.one("emit.checkpoints.interval.seconds = 60\n").paces.groups == 60


def test_settings_and_acls_follow_as_mirrormaker_2_has_it(read: Reading) -> None:
    """By default both do."""
    usual = read.one().options.follows
    assert (usual.settings, usual.acls, usual.copied.defaults_of_source) == (True, True, False)
    assert usual.copied.excludes("min.insync.replicas")
    asked = read.one(
        "sync.topic.configs.enabled = false\nsync.topic.acls.enabled = false\nuse.defaults.from = source\n"
        "config.properties.exclude = retention\\\\..*, flush\\\\.ms\n"
    ).options.follows
    assert (asked.settings, asked.acls, asked.copied.defaults_of_source) == (False, False, True)
    assert [name for name in ("retention.ms", "flush.ms", "min.insync.replicas") if asked.copied.excludes(name)] == [
        *("retention.ms", "flush.ms")
    ]


def test_where_partitions_begin_may_be_said_by_the_consumer(read: Reading) -> None:
    """`auto.offset.reset`; the command line wins, and `--from mm2` takes the alias of the flow."""
    latest = "A.consumer.auto.offset.reset = latest\n"
    assert read.one(latest).options.begin.what == "latest"
    assert read.one(latest, begin="earliest").options.begin.what == "earliest"
    begin = read.one(latest, begin="mm2").options.begin
    assert (begin.what, begin.alias) == ("mm2", "A")


def test_a_file_without_clusters_or_flows_is_refused(read: Reading) -> None:
    """With what to write."""
    with pytest.raises(InvalidValue, match="clusters = A, B"):
        read("A.bootstrap.servers = a:1\n")
    with pytest.raises(InvalidValue, match=r"A->B\.enabled = true"):
        read(TWO.replace("true", "false"))


@pytest.mark.parametrize(
    "given",
    [
        {"whitelist": "a"},
        {"consumer_configs": [Path("c")]},
        {"prefix": "x"},
        {"target_alias": "b"},
        {"replication": 1},
        {"preserve_partitions": True},
        {"preserve_order": True},
        {"heartbeats": True},
        {"heartbeats_seconds": 2},
        {"offset_syncs": True},
        {"offset_syncs_location": "target"},
        {"offset_lag_max": 1},
        {"groups": "a"},
        {"groups_exclude": "a"},
        {"sync_group_offsets": "false"},
        {"sync_group_seconds": 1},
        {"sync_topic_configs": "false"},
        {"config_properties_exclude": "a"},
        {"use_defaults_from": "source"},
        {"sync_topic_acls": True},
    ],
)
def test_what_the_file_says_is_not_said_on_the_command_line_too(read: Reading, given: dict[str, object]) -> None:
    """Nobody could tell which counts."""
    with pytest.raises(InvalidValue, match=r"--mm2\.config"):
        read.one("", **given)
