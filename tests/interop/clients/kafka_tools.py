"""Apache Kafka 4's own command line tools, on its Java client; `scripts/interop-setup` brings them to .make/kafka."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.interop.clients.base import PLAIN, SESSION_MS, Client, Membership, Message
from tests.interop.clients.process import ProcessMember, run
from tests.interop.site import Site
from tests.support.class_archives import TOOLS, archive_flags
from tests.support.records import Content
from tests.support.waiting import WAIT_SECONDS

JARS = Path(__file__).parents[3] / ".make" / "kafka"
JVM_FLAGS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", *archive_flags(TOOLS))
"""A small virtual machine that starts quickly."""
PATIENCE = ("--timeout-ms", str(int(WAIT_SECONDS * 1000)))
"""The console consumer ends where nothing came for so long."""


def java(tool: str, *options: str, package: str = "tools") -> list[str]:
    """The command of one tool, or of another program of Kafka's."""
    return ["java", *JVM_FLAGS, "-cp", f"{JARS}/*", f"org.apache.kafka.{package}.{tool}", *options]


def groups_command(bootstrap: str, *options: str) -> list[str]:
    """The command of kafka-consumer-groups, which by itself waits for five seconds only."""
    patience = ("--timeout", str(int(WAIT_SECONDS * 1000)))
    return java("consumer.group.ConsumerGroupCommand", "--bootstrap-server", bootstrap, *patience, *options)


class KafkaTools(Client):
    name = "Kafka 4 tools"

    def produce(
        self, site: Site, topic: str, messages: Sequence[Message], codec: str = "none", idempotent: bool = False
    ) -> None:
        """The console producer; it chooses partitions by key, so the tests' topics for it have one."""
        headers = any(message.headers for message in messages)
        lines = [_line(message, headers) for message in messages]
        command = java(
            "ConsoleProducer",
            *("--bootstrap-server", self.bootstrap(site), "--topic", self.topic(site, topic)),
            *("--compression-codec", codec),
            *("--producer-property", f"enable.idempotence={'true' if idempotent else 'false'}"),
            *("--property", "parse.key=true", "--property", f"parse.headers={str(headers).lower()}"),
        )
        run(command, b"\n".join(lines) + b"\n")

    def read(self, site: Site, topic: str, count: int) -> list[Content]:
        shown = ("timestamp", "key", "headers")
        command = java(
            "consumer.ConsoleConsumer",
            *("--bootstrap-server", self.bootstrap(site), "--topic", self.topic(site, topic), "--partition", "0"),
            *("--offset", "earliest", "--max-messages", str(count), *PATIENCE),
            *(option for name in shown for option in ("--property", f"print.{name}=true")),
        )
        found = [_content(line) for line in run(command).splitlines()]
        assert len(found) == count, f"{len(found)} of {count} read in time"
        return found

    def read_committed(self, site: Site, topic: str, count: int) -> list[str]:
        """Values of so many records that were committed; fewer if no more come in time."""
        command = java(
            "consumer.ConsoleConsumer",
            *("--bootstrap-server", self.bootstrap(site), "--topic", self.topic(site, topic), "--partition", "0"),
            *("--offset", "earliest", "--max-messages", str(count), *PATIENCE),
            *("--isolation-level", "read_committed"),
        )
        return run(command).splitlines()

    def read_in_group(self, site: Site, topic: str, group: str, count: int) -> list[str]:
        """Values that the console consumer reads as a group of one; it commits them when it ends.

        A poll brings one record: where the tool stops inside a poll it seeks back, and forgets the leader epoch.
        """
        command = java(
            "consumer.ConsoleConsumer",
            *("--bootstrap-server", self.bootstrap(site), "--topic", self.topic(site, topic), "--group", group),
            *("--from-beginning", "--max-messages", str(count), *PATIENCE),
            *("--consumer-property", "max.poll.records=1"),
        )
        return run(command).splitlines()

    def offset_at(self, site: Site, topic: str, timestamp_ms: int) -> int:
        command = java(
            "GetOffsetShell",
            *("--bootstrap-server", site.of_stream, "--topic-partitions", f"{topic}:0", "--time", str(timestamp_ms)),
        )
        return int(run(command).strip().rsplit(":", 1)[1])

    def member(self, site: Site, topic: str, group: str, how: Membership = PLAIN) -> VerifiableMember:
        assignor = "CooperativeStickyAssignor" if how.cooperative else "RangeAssignor"
        command = java(
            "VerifiableConsumer",
            *("--bootstrap-server", self.bootstrap(site), "--topic", self.topic(site, topic), "--group-id", group),
            *("--assignment-strategy", f"org.apache.kafka.clients.consumer.{assignor}"),
            *(() if how.instance is None else ("--group-instance-id", how.instance)),
            *("--session-timeout", str(SESSION_MS), "--verbose", "--reset-policy", "earliest"),
            *("--consumer.config", str(Path(__file__).parent / "verifiable_consumer.properties")),
        )
        return VerifiableMember(command)


class VerifiableMember(ProcessMember):
    def _line(self, line: str) -> None:
        if not line.startswith("{"):
            return
        event = json.loads(line)
        partitions = frozenset(part["partition"] for part in event.get("partitions", ()) if isinstance(part, dict))
        if event["name"] == "partitions_assigned":
            self.assigned |= partitions
        elif event["name"] in {"partitions_revoked", "partitions_lost"}:
            self.given_up |= partitions
            self.assigned -= partitions
        elif event["name"] == "record_data":
            self.values.append(event["value"].encode())


def _line(message: Message, headers: bool) -> bytes:
    line = message.key + b"\t" + message.value
    return (
        b",".join(name.encode() + b":" + value for name, value in message.headers) + b"\t" + line if headers else line
    )


def _content(line: str) -> Content:
    time, headers, key, value = line.split("\t")
    pairs = () if headers == "NO_HEADERS" else tuple(pair.split(":", 1) for pair in headers.split(","))
    return Content(
        key.encode(),
        value.encode(),
        int(time.removeprefix("CreateTime:")),
        tuple((name, given.encode()) for name, given in pairs),
    )
