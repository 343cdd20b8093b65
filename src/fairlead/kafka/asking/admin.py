"""Topics are made and widened, and their settings read and changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from fairlead.kafka.asking.retrying import again
from fairlead.kafka.connecting.brokers import Brokers
from fairlead.kafka.connecting.versions import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
)
from fairlead.kafka.errors import check, final_error
from fairlead.kafka.values import ConfigValue
from fairlead.model.errors import FairleadError

_TOPIC = 2
_SET_FOR_THE_TOPIC = 1
"""Where a setting comes from; version 0 of the answer is not asked for."""
_OF_A_BROKERS_FILE = 4
_SET, _DELETE = 0, 1
_NAMES_AT_ONCE = 1000


class Admin:
    """Asks the controller, as the cluster names it; in clusters without ZooKeeper any broker passes it on."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str], replication: int) -> None:
        """See `Cluster.create_topic`."""
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": replication,
            "assignments": [],
            "configs": [{"name": key, "value": value} for key, value in sorted(configs.items())],
        }

        async def ask() -> None:
            for each in (await self._changed(CREATE_TOPICS, {"topics": [topic]})).topics:
                check(each.error_code, f"topic {each.name}", each.error_message)

        await again(self._brokers.settings, ask)

    async def create_partitions(self, name: str, count: int) -> None:
        """See `Cluster.create_partitions`."""
        topic = {"name": name, "count": count, "assignments": None}

        async def ask() -> None:
            for each in (await self._changed(CREATE_PARTITIONS, {"topics": [topic]})).results:
                check(each.error_code, f"topic {each.name}", each.error_message)

        await again(self._brokers.settings, ask)

    async def told_configs(self, topics: Iterable[str]) -> dict[str, dict[str, ConfigValue] | FairleadError]:
        """See `Cluster.told_configs`."""
        names = sorted(set(topics))
        found: dict[str, dict[str, ConfigValue] | FairleadError] = {}
        for first in range(0, len(names), _NAMES_AT_ONCE):
            found |= await self._described(names[first : first + _NAMES_AT_ONCE])
        return found

    async def _described(self, names: list[str]) -> dict[str, dict[str, ConfigValue] | FairleadError]:
        resources = [{"resource_type": _TOPIC, "resource_name": name, "configuration_keys": None} for name in names]

        async def ask() -> dict[str, dict[str, ConfigValue] | FairleadError]:
            answer = await (await self._brokers.any()).call(DESCRIBE_CONFIGS, {"resources": resources})
            found: dict[str, dict[str, ConfigValue] | FairleadError] = {}
            for result in answer.results:
                refused = final_error(result.error_code, f"topic {result.resource_name}", result.error_message)
                found[result.resource_name] = refused or {each.name: _value(each) for each in result.configs}
            return found

        return await again(self._brokers.settings, ask)

    async def alter_configs(self, changes: Mapping[str, Mapping[str, str | None]]) -> dict[str, FairleadError]:
        """See `Cluster.alter_configs`."""
        names = sorted(changes)
        refused: dict[str, FairleadError] = {}
        for first in range(0, len(names), _NAMES_AT_ONCE):
            refused |= await self._altered({name: changes[name] for name in names[first : first + _NAMES_AT_ONCE]})
        return refused

    async def _altered(self, changes: Mapping[str, Mapping[str, str | None]]) -> dict[str, FairleadError]:
        question = {"resources": [_alteration(name, values) for name, values in changes.items()]}

        async def ask() -> dict[str, FairleadError]:
            """Settings are set to what they are to be, so what may have been done is simply done again."""
            connection = await self._brokers.controller()
            answer = await connection.call(INCREMENTAL_ALTER_CONFIGS, question | {"validate_only": False})
            refused: dict[str, FairleadError] = {}
            for each in answer.responses:
                error = final_error(each.error_code, f"topic {each.resource_name}", each.error_message)
                if error is not None:
                    refused[each.resource_name] = error
            return refused

        return await again(self._brokers.settings, ask)

    async def _changed(self, api_key: int, fields: dict[str, Any]) -> Any:
        waits = timedelta(milliseconds=self._brokers.settings.request_timeout_ms)
        connection = await self._brokers.controller()
        return await connection.call(api_key, fields | {"timeout": waits, "validate_only": False})


def _value(config: Any) -> ConfigValue:
    of_broker = config.config_source == _OF_A_BROKERS_FILE or config.read_only
    return ConfigValue(config.value, config.config_source == _SET_FOR_THE_TOPIC, config.is_sensitive, of_broker)


def _alteration(topic: str, values: Mapping[str, str | None]) -> dict[str, Any]:
    configs = [
        {"name": name, "config_operation": _DELETE if value is None else _SET, "value": value}
        for name, value in sorted(values.items())
    ]
    return {"resource_type": _TOPIC, "resource_name": topic, "configs": configs}
