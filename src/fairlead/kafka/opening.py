"""A cluster by the property file of a Kafka user."""

from __future__ import annotations

from pathlib import Path

from fairlead.kafka.cluster import Cluster
from fairlead.kafka.configuration.clients import consumer_settings
from fairlead.kafka.configuration.properties import load_properties
from fairlead.model.errors import InvalidValue


async def open_by_file(config_file: str, cluster_id: str = "") -> Cluster:
    """The Kafka cluster that a file with settings of a consumer leads to. Who we are is read there again for each
    connection.

    Raises:
        InvalidValue: the file cannot be read or is wrong, or another cluster answers there than the one with that id.
        TryAgain: no broker answers. NotAllowed: they do not know us.
    """
    file = Path(config_file)
    settings = consumer_settings(load_properties(file), config_file, file).settings
    cluster = await Cluster.open(settings.client)
    if cluster_id and cluster.cluster_id != cluster_id:
        found = cluster.cluster_id
        await cluster.close()
        raise InvalidValue(f"{config_file}: the Kafka cluster {found} answers there, and not {cluster_id}")
    return cluster
