from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.asking import Asker, asking, versions

DESCRIBE, INCREMENTAL, ALTER, ACLS = 32, 44, 33, 29
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
    "change",
    [
        ("retention.ms", 0, "1000"),
        ("cleanup.policy", 0, "compact,delete"),
        ("no.such.setting", 0, "1"),
        ("cleanup.policy", 2, "compact"),
        ("cleanup.policy", 0, None),
    ],
)
async def test_what_is_not_honoured_is_refused_by_name(change: tuple[str, int, str | None]) -> None:
    """And nothing of the request is carried out."""
    async with asking() as asker:
        answer = await alter(asker, ("message.timestamp.type", 0, "LogAppendTime"), change)
        assert answer.error_code is ErrorCode.invalid_config
        assert change[0] in answer.error_message
        assert await value(asker, "message.timestamp.type") == ("CreateTime", 5)


async def test_a_value_that_holds_anyway_is_agreed_to() -> None:
    """Tools send many defaults."""
    async with asking() as asker:
        assert (await alter(asker, ("retention.ms", 0, "604800000"))).error_code is ErrorCode.none


async def test_a_dry_run_changes_nothing() -> None:
    """`validate_only` answers as the real one would."""
    async with asking() as asker:
        assert (await alter(asker, ("cleanup.policy", 0, "compact"), dry=True)).error_code is ErrorCode.none
        assert await value(asker, "cleanup.policy") == ("delete", 5)


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
