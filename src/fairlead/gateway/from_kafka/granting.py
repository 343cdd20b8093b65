"""Which reader task reads which partitions of a Kafka cluster, and from where: from where the replica's log ends.

A partition belongs to one of 16 slices, which readers hold as they hold slices of links. The replica records for each
slice how many frames came; so a frame that is lost on the way is noticed, and one of an earlier grant is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import crc32c

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import KafkaUpstream
from fairlead.gateway.apply.agreement import recorded_positions
from fairlead.gateway.links.grants.connected_reader import ConnectedReader
from fairlead.gateway.links.grants.grant_table import GrantTable, Held
from fairlead.gateway.links.grants.granting import Granting
from fairlead.model.names import SLICES
from fairlead.streamlog.numbers import slices_of_mask
from fairlead.streamlog.values import GrantRun
from fairlead.wire.control import KafkaGrant, KafkaPartition
from fairlead.wire.link_protocol import StreamPlace

READERS_MAX: Final = 4
"""Reader tasks that read one Kafka cluster for a stream."""


class Wanted(NamedTuple):
    """A partition that is to be read."""

    topic: str
    """Kafka's name of it."""
    topic_id: bytes
    partition: int

    @property
    def slice(self) -> int:
        return crc32c.crc32c(self.topic_id + self.partition.to_bytes(4, "big")) % SLICES


class KafkaGranting:
    """Of all Kafka clusters."""

    def __init__(self, cluster: Cluster, table: GrantTable, granting: Granting) -> None:
        self._cluster = cluster
        self._table = table
        self._granting = granting

    def stands(self, upstream: KafkaUpstream) -> bool:
        """Whether readers hold all slices, and as many of them as there are."""
        grants = self._table.of(upstream.link)
        readers = {id(each.reader) for each in grants}
        held = {each for grant in grants for each in grant.slices}
        return len(held) == SLICES and len(readers) == min(READERS_MAX, len(self._table.readers))

    def has(self, upstream: KafkaUpstream, run: GrantRun) -> bool:
        """Whether something stands that was given under this run, or before."""
        return any(not run < held.run for held in self._table.of(upstream.link))

    def take_back(self, upstream: KafkaUpstream, reason: str) -> None:
        """Whatever is given of it."""
        self._granting.take_back_of(upstream.link, reason)

    def give(self, upstream: KafkaUpstream, stream: Stream, wanted: Sequence[Wanted]) -> bool:
        """Give these partitions to readers, each from where its log ends here; False if there is none with room. What
        was given before is taken back."""
        self.take_back(upstream, "given anew")
        readers = self._table.free()[:READERS_MAX]
        if not readers:
            return False
        starts = self._starts(upstream, stream)
        for place, reader in enumerate(readers):
            slices = {each: starts.get(each, 0) for each in range(place, SLICES, len(readers))}
            self._give(upstream, stream, reader, slices, [each for each in wanted if each.slice in slices])
        return True

    def _starts(self, upstream: KafkaUpstream, stream: Stream) -> dict[int, int]:
        starts: dict[int, int] = {}
        for found in recorded_positions(stream, upstream.link):
            self._granting.runs.seen(upstream.link, 0, found.run)
            starts.update(dict.fromkeys(slices_of_mask(found.slices), found.commit))
        return starts

    def _give(
        self,
        upstream: KafkaUpstream,
        stream: Stream,
        reader: ConnectedReader,
        slices: Mapping[int, int],
        wanted: Sequence[Wanted],
    ) -> None:
        cluster = self._cluster
        number = self._granting.number()
        run = self._granting.runs.next(upstream.link, 0, cluster.meta.epoch.number)
        key = (upstream.source, 0)
        held = Held(number, upstream.link, upstream.link, run, key, frozenset(slices), reader)
        self._table.add(held)
        reader.kafka(
            KafkaGrant(
                number,
                upstream.link,
                run,
                StreamPlace(str(upstream.path), "/", upstream.source),
                upstream.kafka_cluster,
                StreamPlace(cluster.name, stream.path, stream.id, tuple(cluster.urls)),
                upstream.config_file,
                dict(slices),
                tuple(_partitions(stream, wanted)),
            )
        )


def _partitions(stream: Stream, wanted: Sequence[Wanted]) -> list[KafkaPartition]:
    numbers: dict[tuple[bytes, int], int] = {}
    found: list[KafkaPartition] = []
    for each in wanted:
        known = stream.by_incarnation(each.topic_id)
        if known is None:
            continue
        shard, topic = known
        state = shard.state.partition(topic.number, each.partition)
        counter = numbers.setdefault((each.topic_id, each.slice), len(numbers) + 1)
        place = (each.topic, each.topic_id, each.partition)
        stands = (state.end, state.epoch_before(state.end), topic.epoch)
        found.append(KafkaPartition(counter * SLICES + each.slice, *place, *stands))
    return found
