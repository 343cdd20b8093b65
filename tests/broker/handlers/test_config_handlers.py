from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.asking import Asker, a_copy, asking, versions

from fairlead.broker.settings.kinds import ConfigType
from fairlead.broker.settings.topic_settings import SETTINGS

DESCRIBE, INCREMENTAL, ALTER, ACLS, SASL_HANDSHAKE = 32, 44, 33, 29, 17
TOPIC, BROKER = 2, 4


async def describe(asker: Asker, kind: int, name: str, version: int = 4, keys: list[str] | None = None) -> Any:
    answer = await asker.ask(
        DESCRIBE,
        version,
        resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
        include_synonyms=True,
        include_documentation=True,
    )
    return answer.results[0]


async def value(asker: Asker, name: str, topic: str = "a") -> tuple[str, int]:
    result = await describe(asker, TOPIC, topic, keys=[name])
    (config,) = result.configs
    return config.value, config.config_source


async def alter(asker: Asker, *changes: tuple[str, int, str | None], topic: str = "a", dry: bool = False) -> Any:
    configs = [{"name": name, "config_operation": operation, "value": given} for name, operation, given in changes]
    resource = {"resource_type": TOPIC, "resource_name": topic, "configs": configs}
    return (await asker.ask(INCREMENTAL, 1, resources=[resource], validate_only=dry)).responses[0]


@pytest.mark.parametrize("version", versions(DESCRIBE))
@pytest.mark.parametrize(("kind", "name", "key"), [(TOPIC, "/ships:a", "cleanup.policy"), (BROKER, "1", "broker.id")])
async def test_topics_and_the_broker_are_described_in_every_version(
    version: int, kind: int, name: str, key: str
) -> None:
    """With the source of each value."""
    async with asking() as asker:
        result = await describe(asker, kind, name, version)
        assert result.error_code is ErrorCode.none
        found = {config.name: config for config in result.configs}
        assert found[key].synonyms[0].value == found[key].value


async def test_a_topic_shows_its_streams_time_to_live() -> None:
    """`retention.ms` is the stream's, and for a stream without end -1."""
    async with asking() as asker:
        assert (await value(asker, "retention.ms"))[0] == "604800000"
        await asker.cluster.edit_stream("/default", ttl_seconds=0)
        assert (await value(asker, "retention.ms"))[0] == "-1"


@pytest.mark.parametrize("given", ["-1", "604800001"])
async def test_a_longer_life_than_the_streams_is_kept_and_counts_once_that_is_raised(given: str) -> None:
    """What is shown is what holds; the topic's own value is named with its source."""
    async with asking() as asker:
        await alter(asker, ("retention.ms", 0, given))
        (shown,) = (await describe(asker, TOPIC, "a", keys=["retention.ms"])).configs
        assert (shown.value, shown.config_source) == ("604800000", 1)
        assert [(found.value, found.source) for found in shown.synonyms] == [(given, 1), ("604800000", 5)]
        await asker.cluster.edit_stream("/default", ttl_seconds=0)
        assert await value(asker, "retention.ms") == (given, 1)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nothing", ErrorCode.unknown_topic_or_partition),
        (BROKER, "2", ErrorCode.invalid_request),
        (16, "x", ErrorCode.invalid_request),
    ],
)
async def test_what_has_no_settings_is_refused(kind: int, name: str, code: ErrorCode) -> None:
    """Unknown topics, brokers and kinds."""
    async with asking() as asker:
        result = await describe(asker, kind, name)
        assert result.error_code is code
        assert result.error_message


async def test_a_setting_is_set_and_reset() -> None:
    """SET makes it the topic's own, DELETE takes it back."""
    async with asking() as asker:
        assert (await alter(asker, ("cleanup.policy", 0, "compact"))).error_code is ErrorCode.none
        assert await value(asker, "cleanup.policy") == ("compact", 1)
        assert (await alter(asker, ("cleanup.policy", 1, None))).error_code is ErrorCode.none
        assert await value(asker, "cleanup.policy") == ("delete", 5)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("retention.ms", 0, "soon"), "Not a number of type LONG"),
        (("retention.ms", 0, "-2"), "at least -1"),
        (("retention.ms", 0, "1_000"), "Not a number of type LONG"),
        (("retention.ms", 0, "\u0661\u0662"), "Not a number of type LONG"),
        (("retention.ms", 0, "9" * 5000), "Not a number of type LONG"),
        (("min.cleanable.dirty.ratio", 0, "0_1"), "Not a number of type DOUBLE"),
        (("min.cleanable.dirty.ratio", 0, "nan"), "Not a number of type DOUBLE"),
        (("message.timestamp.type", 0, "\u00a0LogAppendTime"), "must be one of"),
        (("max.message.bytes", 0, "2147483648"), "Not a number of type INT"),
        (("min.cleanable.dirty.ratio", 0, "1.5"), "no more than 1"),
        (("preallocate", 0, "yes"), "true or false"),
        (("compression.type", 0, "zip"), "one of"),
        (("cleanup.policy", 0, "delete,tidy"), "one of: compact, delete"),
        (("cleanup.policy", 0, " , "), "at least one of"),
        (("cleanup.policy", 3, "delete"), "at least one of"),
        (("cleanup.policy", 0, None), "Null value"),
        (("no.such.setting", 0, "1"), "Unknown topic config name"),
        (("no.such.setting", 2, "1"), "Unknown topic config name"),
        (("retention.bytes", 2, "1"), "not LIST"),
        (("cleanup.policy", 9, "delete"), "operation 9"),
        (("min.compaction.lag.ms", 0, str(2**63 - 1)), None),
        (("remote.storage.enable", 0, "true"), "no tiered storage"),
        (("leader.replication.throttled.replicas", 0, "0:1," * 300), "1000 characters"),
        (("leader.replication.throttled.replicas", 0, "0:1,all"), "list of replicas"),
        (("follower.replication.throttled.replicas", 0, "*,0:1"), "list of replicas"),
        (("follower.replication.throttled.replicas", 0, "*"), None),
    ],
)
async def test_what_kafka_does_not_know_is_refused_by_name(
    change: tuple[str, int, str | None], why: str | None
) -> None:
    """With the reason in Kafka's words, and nothing of the request is carried out."""
    async with asking() as asker:
        answer = await alter(asker, ("message.timestamp.type", 0, "LogAppendTime"), change)
        if why is None:
            assert answer.error_code is ErrorCode.none
            return
        assert answer.error_code is ErrorCode.invalid_config
        assert change[0] in answer.error_message
        assert why in answer.error_message
        assert await value(asker, "message.timestamp.type") == ("CreateTime", 5)


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("message.timestamp.type", " LogAppendTime\t\n", "LogAppendTime"),
        ("segment.ms", " +1000 ", "+1000"),
        ("min.cleanable.dirty.ratio", " 2.5e-1", "2.5e-1"),
        ("cleanup.policy", " compact , delete ", "compact , delete"),
        ("preallocate", "True ", "True"),
    ],
)
async def test_a_value_is_kept_without_spaces_around_it(name: str, given: str, kept: str) -> None:
    """As Kafka reads it: what is shown is what holds."""
    async with asking() as asker:
        assert (await alter(asker, (name, 0, given))).error_code is ErrorCode.none
        assert await value(asker, name) == (kept, 1)
        assert asker.listener.find("a").topic.configs == {name: kept}


async def test_a_lag_above_the_largest_lag_is_refused() -> None:
    """Each value may be had, but not both."""
    async with asking() as asker:
        await alter(asker, ("max.compaction.lag.ms", 0, "10"))
        answer = await alter(asker, ("min.compaction.lag.ms", 0, "11"))
        assert answer.error_code is ErrorCode.invalid_config
        assert (await alter(asker, ("min.compaction.lag.ms", 0, "10"))).error_code is ErrorCode.none


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "remote.storage.enable"])
async def test_every_setting_of_kafkas_is_kept_and_shown_as_the_topics_own(name: str) -> None:
    """Streams, MirrorMaker and others set many that mean nothing here, and end if one is refused."""
    async with asking() as asker:
        setting = SETTINGS[name]
        number = "*" if setting.replicas else "2000000" if setting.most is None else str(int(setting.most))
        given = setting.one_of[-1] if setting.one_of else "true" if setting.type is ConfigType.BOOLEAN else number
        assert (await alter(asker, (name, 0, given))).error_code is ErrorCode.none
        (shown,) = (await describe(asker, TOPIC, "a", keys=[name])).configs
        assert (shown.value, shown.config_source, shown.read_only, shown.is_sensitive) == (given, 1, False, False)
        inherited = {"max.message.bytes": str(asker.cluster.settings.message_bytes_max), "retention.ms": "604800000"}
        default = inherited.get(name, setting.default)
        assert (shown.synonyms[0].value, shown.synonyms[0].source) == (given, 1)
        assert (shown.synonyms[1].value, shown.synonyms[1].source) == (default, 5)
        assert shown.documentation


async def test_a_topic_without_settings_of_its_own_has_no_overrides() -> None:
    """`kafka-topics --topics-with-overrides` lists topics by that; in Kafka no topic setting is read-only."""
    async with asking() as asker:
        shown = (await describe(asker, TOPIC, "a")).configs
        assert {config.config_source for config in shown} == {5}
        assert not any(config.read_only for config in shown)
        assert [config.name for config in shown] == sorted(SETTINGS)


async def test_items_are_added_to_a_list_and_taken_from_it() -> None:
    """APPEND and SUBTRACT, as in Kafka: what is there is not added twice, what is not there not taken."""
    async with asking() as asker:
        throttled = "leader.replication.throttled.replicas"
        await alter(asker, (throttled, 2, "0:1"), (throttled, 2, "0:1, 1:1"))
        assert await value(asker, throttled) == ("0:1,1:1", 1)
        await alter(asker, (throttled, 3, "0:1,7:7"))
        assert await value(asker, throttled) == ("1:1", 1)
        await alter(asker, (throttled, 3, "1:1"))
        assert await value(asker, throttled) == ("", 1)


async def test_a_limit_above_the_servers_is_kept_and_the_servers_shown() -> None:
    """What is shown is what holds; the topic's own value is named with its source."""
    async with asking(message_bytes_max=2_000_000) as asker:
        await alter(asker, ("max.message.bytes", 0, "3000000"))
        (shown,) = (await describe(asker, TOPIC, "a", keys=["max.message.bytes"])).configs
        assert (shown.value, shown.config_source) == ("2000000", 1)
        assert [(found.value, found.source) for found in shown.synonyms] == [("3000000", 1), ("2000000", 5)]


async def test_a_strangers_setting_that_cannot_be_read_counts_as_not_set() -> None:
    """A row that came over a link may say anything."""
    async with asking() as asker:
        strange = {"max.message.bytes": "many", "cleanup.policy": ",", "who.knows": "what"}
        await asker.cluster.stream("/default").set_configs("a", strange)
        assert (await value(asker, "max.message.bytes"))[0] == str(asker.cluster.settings.message_bytes_max)
        names = [config.name for config in (await describe(asker, TOPIC, "a")).configs]
        assert "who.knows" not in names


async def test_the_broker_shows_where_it_is_reached() -> None:
    """Tools look for `advertised.listeners`."""
    async with asking() as asker:
        (shown,) = (await describe(asker, BROKER, "1", keys=["advertised.listeners"])).configs
        assert (shown.value, shown.read_only) == ("PLAINTEXT://broker.example:9092", True)


async def test_a_dry_run_changes_nothing() -> None:
    """`validate_only` answers as the real one would."""
    async with asking() as asker:
        assert (await alter(asker, ("cleanup.policy", 0, "compact"), dry=True)).error_code is ErrorCode.none
        assert await value(asker, "cleanup.policy") == ("delete", 5)


@pytest.mark.parametrize("dry", [False, True])
async def test_elsewhere_than_at_its_owner_a_topic_keeps_its_settings_and_the_refusal_names_the_owner(
    dry: bool,
) -> None:
    """By its path, as in every other refusal, and in a dry run too."""
    async with asking() as asker:
        await a_copy(asker, "/ships", "copy", owner="/default")
        answer = await alter(asker, ("retention.ms", 0, "1"), topic="/ships:copy", dry=dry)
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.policy_violation,
            (
                "topic /ships:copy is owned by /mapr/site/default; this copy is read-only, write and change it there: "
                "it is in this cluster"
            ),
        )


@pytest.mark.parametrize("version", versions(ALTER))
async def test_the_older_form_resets_what_it_does_not_name(version: int) -> None:
    """AlterConfigs gives the whole of a topic's own settings."""
    async with asking() as asker:
        await alter(asker, ("cleanup.policy", 0, "compact"))
        configs = [{"name": "message.timestamp.type", "value": "LogAppendTime"}]
        resource = {"resource_type": TOPIC, "resource_name": "a", "configs": configs}
        answer = await asker.ask(ALTER, version, resources=[resource], validate_only=False)
        assert answer.responses[0].error_code is ErrorCode.none
        assert await value(asker, "cleanup.policy") == ("delete", 5)
        assert await value(asker, "message.timestamp.type") == ("LogAppendTime", 1)


async def test_the_broker_has_no_settings_to_change() -> None:
    """They are in the server's settings file."""
    async with asking() as asker:
        resource = {"resource_type": BROKER, "resource_name": "1", "configs": []}
        answer = await asker.ask(INCREMENTAL, 1, resources=[resource], validate_only=False)
        assert answer.responses[0].error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("version", versions(ACLS))
async def test_there_are_no_acls(version: int) -> None:
    """SECURITY_DISABLED, as in Kafka without an authorizer."""
    async with asking() as asker:
        answer = await asker.ask(
            ACLS, version, resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
        )
        assert answer.error_code is ErrorCode.security_disabled


@pytest.mark.parametrize("version", versions(SASL_HANDSHAKE))
async def test_nobody_logs_in(version: int) -> None:
    """ILLEGAL_SASL_STATE, as at a listener of Kafka without SASL: Java's client takes the end of its connection, as of
    an API that is not offered, for an outage, and tries again for ever."""
    async with asking() as asker:
        answer = await asker.ask(SASL_HANDSHAKE, version, mechanism="PLAIN")
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.illegal_sasl_state, ())
