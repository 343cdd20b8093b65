"""kcat: librdkafka on the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from tests.interop.clients.base import PLAIN, SESSION_MS, Client, Membership, Message
from tests.interop.clients.process import ProcessMember, run
from tests.interop.site import Site
from tests.support.records import Content
from tests.support.waiting import WAIT_SECONDS

_ASSIGNED = re.compile(r"% Group .* rebalanced .*: assigned: (.*)")
_REVOKED = re.compile(r"% Group .* rebalanced .*: revoked: (.*)")
_PARTITION = re.compile(r"\[(\d+)\]")


class Kcat(Client):
    name = "kcat"
    waits_for_topics = False
    memberships = frozenset()

    def command(self, site: Site, *options: str) -> list[str]:
        return [*self.tool(self.bootstrap(site)), *options]

    @staticmethod
    def tool(bootstrap: str) -> list[str]:
        """By itself it waits five seconds for the first answer."""
        return ["kcat", "-b", bootstrap, "-m", str(int(WAIT_SECONDS))]

    def produce(
        self, site: Site, topic: str, messages: Sequence[Message], codec: str = "none", idempotent: bool = False
    ) -> None:
        """kcat gives the headers of its command line to every message, so messages are sent in runs of equal ones.

        `-E`: without it kcat ends at the first lost connection instead of sending again.
        """
        for headers, lines in _runs(messages):
            options = [option for name, value in headers for option in ("-H", f"{name}={value.decode()}")]
            flags = ["-E", "-X", f"enable.idempotence={'true' if idempotent else 'false'}", "-z", codec, *options]
            run(
                self.command(site, "-P", "-t", self.topic(site, topic), "-p", "0", "-K", "\t", *flags),
                b"\n".join(lines),
            )

    def read(self, site: Site, topic: str, count: int) -> list[Content]:
        options = ("-C", "-t", self.topic(site, topic), "-p", "0", "-o", "beginning", "-J", "-q", "-c", str(count))
        return [_content(json.loads(line)) for line in run(self.command(site, *options)).splitlines()]

    def read_to_end(self, site: Site, topic: str) -> list[str]:
        """What `kcat -e` reads: values to the end of the partition, where it stops by itself."""
        options = ("-C", "-t", self.topic(site, topic), "-p", "0", "-o", "beginning", "-e", "-q")
        return run(self.command(site, *options)).splitlines()

    def offset_at(self, site: Site, topic: str, timestamp_ms: int) -> int:
        """By the plain name: `-t topic:partition:time` leaves no room for a topic with `:`."""
        found = run([*self.tool(site.of_stream), "-Q", "-t", f"{topic}:0:{timestamp_ms}"])
        return int(found.rsplit(" ", 1)[1])

    def member(self, site: Site, topic: str, group: str, how: Membership = PLAIN) -> KcatMember:
        settings = (
            "auto.offset.reset=earliest",
            f"session.timeout.ms={SESSION_MS}",
            "heartbeat.interval.ms=200",
            "topic.metadata.refresh.interval.ms=300",
        )
        options = [option for setting in settings for option in ("-X", setting)]
        return KcatMember(self.command(site, "-u", "-E", *options, "-G", group, self.topic(site, topic)))


class KcatMember(ProcessMember):
    def _line(self, line: str) -> None:
        if match := _ASSIGNED.match(line):
            self.assigned = frozenset(map(int, _PARTITION.findall(match[1])))
        elif _REVOKED.match(line):
            self.assigned = frozenset()
        elif not line.startswith("%"):
            self.values.append(line.encode())


def _runs(messages: Sequence[Message]) -> list[tuple[tuple[tuple[str, bytes], ...], list[bytes]]]:
    runs: list[tuple[tuple[tuple[str, bytes], ...], list[bytes]]] = []
    for message in messages:
        if not runs or runs[-1][0] != message.headers:
            runs.append((message.headers, []))
        runs[-1][1].append(message.key + b"\t" + message.value)
    return runs


def _content(found: dict[str, object]) -> Content:
    flat = found.get("headers", [])
    assert isinstance(flat, list)
    headers = tuple((name, value.encode()) for name, value in zip(flat[::2], flat[1::2], strict=True))
    return Content(str(found["key"]).encode(), str(found["payload"]).encode(), int(str(found["ts"])), headers)
