"""The few commands that setting up a link needs at the replica's cluster, which may be this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import httpx

from fairlead.client.admin import FORWARDED, AdminClient
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.values import StreamSettings, UpstreamRecord
from fairlead.model.errors import NotFound
from fairlead.model.names import StreamPath


class Streams(Protocol):
    """Streams and upstreams of some cluster; paths are local to it. Errors are those of the commands."""

    async def create(self, path: str, settings: StreamSettings) -> None:
        """Make a stream."""
        ...

    async def delete(self, path: str) -> None:
        """Delete a stream."""
        ...

    async def add_upstream(self, path: str, upstream: StreamPath) -> None:
        """Let the stream accept a source, named by its global path."""
        ...

    async def remove_upstream(self, path: str, upstream: StreamPath) -> None:
        """Let it accept the source no more."""
        ...


class StreamsHere:
    """This cluster's own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def create(self, path: str, settings: StreamSettings) -> None:
        await self._cluster.create_stream(path, settings)

    async def delete(self, path: str) -> None:
        await self._cluster.delete_stream(path)

    async def add_upstream(self, path: str, upstream: StreamPath) -> None:
        await self._cluster.links.add_upstream(UpstreamRecord(self._cluster.stream(path).id, upstream))

    async def remove_upstream(self, path: str, upstream: StreamPath) -> None:
        stream = self._cluster.stream(path)
        for record in self._cluster.links.upstreams(stream.id):
            if record.path == upstream and record.once_link is None:
                await self._cluster.links.remove_upstream(record)
                return
        raise NotFound(
            f"{upstream} is not an upstream of {path}; `fairlead stream upstream list` shows those there are"
        )


class StreamsThere:
    """Those of another cluster, by its admin interface; a server of a third one at its address refuses."""

    def __init__(self, http: httpx.AsyncClient, urls: Sequence[str], cluster: str) -> None:
        self._client = AdminClient(urls, http)
        self._cluster = cluster

    async def _post(self, command: str, path: str, **params: object) -> None:
        given = {"path": str(StreamPath(path, self._cluster)), **params}
        await self._client.post(f"/rest/stream/{command}", given, {FORWARDED: "1"})

    async def create(self, path: str, settings: StreamSettings) -> None:
        await self._post("create", path, **_parameters(settings))

    async def delete(self, path: str) -> None:
        await self._post("delete", path)

    async def add_upstream(self, path: str, upstream: StreamPath) -> None:
        await self._post("upstream/add", path, upstream=str(upstream))

    async def remove_upstream(self, path: str, upstream: StreamPath) -> None:
        await self._post("upstream/remove", path, upstream=str(upstream))


def streams_of(cluster: Cluster, target: StreamPath, urls: Sequence[str], http: httpx.AsyncClient) -> Streams:
    """Those of the cluster that a replica's path names; `urls` are its addresses, if it is not this one."""
    if target.cluster is None or target.cluster == cluster.name:
        return StreamsHere(cluster)
    return StreamsThere(http, urls, target.cluster)


def copied_settings(settings: StreamSettings) -> StreamSettings:
    """A replica's settings: the source's, without the moment of its creation."""
    names = ("ttl_seconds", "autocreate", "default_partitions", "compression", "timestamp_type", "pid_expiry_seconds")
    perms = ("produceperm", "consumeperm", "topicperm", "copyperm", "adminperm", "shards")
    return StreamSettings(**{name: getattr(settings, name) for name in (*names, *perms)})


def _parameters(settings: StreamSettings) -> dict[str, object]:
    """Settings as `stream create` takes them; access belongs to the users of the other cluster and is not copied."""
    return {
        "ttl": settings.ttl_seconds,
        "autocreate": settings.autocreate,
        "defaultpartitions": settings.default_partitions,
        "compression": settings.compression,
        "defaulttimestamptype": settings.timestamp_type,
        "pidexpirysecs": settings.pid_expiry_seconds,
        "shards": settings.shards,
    }
