"""A mirror and its client at a broker of Apache Kafka that wants to know who they are: TLS with stores as Java's tools
write them, SASL by passwords and tokens, sessions that end, passwords that change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from fairlead.kafka import Cluster, TopicPartition
from fairlead.kafka.configuration.clients import consumer_settings
from fairlead.kafka.configuration.properties import load_properties
from fairlead.model.errors import NotAllowed
from tests.interop.test_from_kafka import Replica, batches, running
from tests.kafka.client import batch, fetching, producing, values_of
from tests.support.carrier import Carrier
from tests.support.certificates import PASSWORD, Authority, jks_store, pem_of, pem_store, pkcs12_store, trust_store
from tests.support.kafka_nodes import OUTSIDE, KafkaNodes, kafka_nodes
from tests.support.mirrors import MirrorProcess, count, make_topic, mirroring, produce
from tests.support.sites import descendants
from tests.support.waiting import WAIT_SECONDS, in_time, wait_until
from tests.support.wires import Wires

MUTUAL = "MUTUAL"
"""The listener that wants to see a certificate."""
MODULES = "org.apache.kafka.common.security"
SCRAMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SESSION_MS = 1500
SECRET = "pass-word"


class Secured(NamedTuple):
    """A broker, and the stores with which it is met."""

    kafka: KafkaNodes
    folder: Path
    wires: Wires

    def store(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """OUTSIDE speaks SASL_SSL with all mechanisms and sessions of 1.5 s; MUTUAL wants a certificate."""
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority()
    trust_store(folder / "trust.jks", "JKS", authority)
    trust_store(folder / "trust.p12", "PKCS12", authority)
    (folder / "trust.pem").write_text(pem_of(authority.certificate))
    jks_store(folder / "broker.jks", authority.own("broker"))
    client = authority.own("client")
    pem_store(folder / "client.pem", client)
    pkcs12_store(folder / "client.p12", client)
    jks_store(folder / "client.jks", client, key_password="key-secret")
    pkcs12_store(folder / "late.p12", authority.own("late", expired=True))
    with (
        Wires() as wires,
        kafka_nodes(
            folder / "kafka",
            wires=wires,
            outside="SASL_SSL",
            listeners={MUTUAL: "SSL"},
            settings=server_settings(folder),
        ) as kafka,
    ):
        set_scram_password(kafka, SECRET)
        make_topic(kafka.bootstrap(), "t", retention_ms="-1")
        yield Secured(kafka, folder, wires)


def server_settings(folder: Path) -> dict[str, Any]:
    outside, mutual = f"listener.name.{OUTSIDE.lower()}", f"listener.name.{MUTUAL.lower()}"
    jaas = {
        "plain": f'{MODULES}.plain.PlainLoginModule required user_ann="{SECRET}";',
        "scram-sha-256": f"{MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{MODULES}.scram.ScramLoginModule required;",
        "oauthbearer": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
    }
    settings: dict[str, Any] = {
        f"{outside}.sasl.enabled.mechanisms": f"PLAIN,{','.join(SCRAMS)},OAUTHBEARER",
        f"{mutual}.ssl.client.auth": "required",
    }
    for mechanism, module in jaas.items():
        settings[f"{outside}.{mechanism}.sasl.jaas.config"] = module
        settings[f"{outside}.{mechanism}.connections.max.reauth.ms"] = SESSION_MS
    for listener in (outside, mutual):
        settings[f"{listener}.ssl.keystore.location"] = folder / "broker.jks"
        settings[f"{listener}.ssl.keystore.password"] = PASSWORD
        settings[f"{listener}.ssl.key.password"] = PASSWORD
        settings[f"{listener}.ssl.truststore.location"] = folder / "trust.jks"
        settings[f"{listener}.ssl.truststore.password"] = PASSWORD
    return settings


def set_scram_password(kafka: KafkaNodes, password: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap()})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        wanted = UserScramCredentialUpsertion("ann", info, password.encode())
        admin.alter_user_scram_credentials([wanted])["ann"].result(WAIT_SECONDS)


# ---------------------------------------------------------------- property files


def trusting(secured: Secured, kind: str) -> dict[str, str]:
    store = {"JKS": "trust.jks", "PKCS12": "trust.p12", "PEM": "trust.pem"}[kind]
    entries = {"ssl.truststore.location": secured.store(store), "ssl.truststore.type": kind}
    return entries if kind == "PEM" else entries | {"ssl.truststore.password": PASSWORD}


def by_password(secured: Secured, mechanism: str, kind: str, password: str = SECRET) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "bootstrap.servers": secured.kafka.bootstrap(OUTSIDE),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{MODULES}.{module} required username="ann" password="{password}";',
        **trusting(secured, kind),
    }


def by_token(secured: Secured, kind: str, seconds: int = 3600) -> dict[str, str]:
    claims = f'unsecuredLoginStringClaim_sub="ann" unsecuredLoginLifetimeSeconds="{seconds}"'
    return {
        "bootstrap.servers": secured.kafka.bootstrap(OUTSIDE),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required {claims};",
        **trusting(secured, kind),
    }


def by_certificate(secured: Secured, store: str, kind: str, key_password: str = "") -> dict[str, str]:
    return {
        "bootstrap.servers": secured.kafka.bootstrap(MUTUAL),
        "security.protocol": "SSL",
        "ssl.keystore.location": secured.store(store),
        "ssl.keystore.type": kind,
        "ssl.keystore.password": "" if kind == "PEM" else PASSWORD,
        "ssl.key.password": key_password,
        **trusting(secured, "PEM"),
    }


def written(file: Path, entries: Mapping[str, str]) -> Path:
    file.write_text("".join(f"{name}={value}\n" for name, value in entries.items() if value))
    return file


@asynccontextmanager
async def opened(file: Path) -> AsyncIterator[Cluster]:
    settings, warnings = consumer_settings(load_properties(file), str(file), file)
    assert warnings == []
    async with in_time():
        cluster = await Cluster.open(settings.client)
        try:
            yield cluster
        finally:
            await cluster.close()


# ---------------------------------------------------------------- the client


@pytest.mark.parametrize(
    ("how", "about"),
    [
        (by_password, ("PLAIN", "PKCS12")),
        (by_password, ("SCRAM-SHA-256", "JKS")),
        (by_password, ("SCRAM-SHA-512", "PEM")),
        (by_token, ("PEM",)),
        (by_certificate, ("client.pem", "PEM")),
        (by_certificate, ("client.p12", "PKCS12")),
        (by_certificate, ("client.jks", "JKS", "key-secret")),
    ],
)
async def test_a_broker_knows_us_and_takes_and_gives_records(
    secured: Secured, tmp_path: Path, how: Any, about: tuple[str, ...]
) -> None:
    file = written(tmp_path / "client.config", how(secured, *about))
    async with opened(file) as cluster:
        async with producing(await cluster.producer()) as producer:
            offset = await producer.send("t", 0, batch(repr(about).encode()))
        assert offset is not None
        async with fetching(cluster.fetcher()) as fetcher:
            fetcher.assign(TopicPartition("t", 0), offset)
            assert await values_of(fetcher, 1) == [repr(about).encode()]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "OAUTHBEARER"])
async def test_we_stay_connected_over_many_sessions(secured: Secured, tmp_path: Path, mechanism: str) -> None:
    """KIP-368: the broker ends connections that ask for anything after their session. We renew ours in time: three
    sessions go by at a stretch in which none is opened anew. A stall at the end of a session may cost one, no record.
    """
    entries = by_token(secured, "PEM") if mechanism == "OAUTHBEARER" else by_password(secured, mechanism, "PEM")
    (wire,) = (node.wire for node in secured.kafka.nodes)
    assert wire is not None
    async with (
        opened(written(tmp_path / "client.config", entries)) as cluster,
        producing(await cluster.producer()) as producer,
        fetching(cluster.fetcher()) as fetcher,
    ):
        offset = await producer.send("t", 0, batch(b"first"))
        assert offset is not None
        fetcher.assign(TopicPartition("t", 0), offset)
        assert await values_of(fetcher, 1) == [b"first"]
        loop = asyncio.get_running_loop()
        since, connections, number = loop.time(), wire.connections, 0
        while loop.time() < since + 3 * SESSION_MS / 1000:
            number += 1
            await producer.send("t", 0, batch(b"%d" % number))
            assert await values_of(fetcher, 1) == [b"%d" % number]
            if wire.connections != connections:
                since, connections = loop.time(), wire.connections


# ---------------------------------------------------------------- the mirror


def arguments(secured: Secured, folder: Path, source: Mapping[str, str], *more: str) -> list[str]:
    """From the broker to itself, under another name."""
    consumer = written(folder / "consumer.config", {**source, "group.id": folder.name, "metadata.max.age.ms": "300"})
    producer = written(folder / "producer.config", by_token(secured, "PKCS12"))
    files = ["--consumer.config", str(consumer), "--producer.config", str(producer)]
    return [*files, "--whitelist", f"{folder.name}.*", "--prefix", "to-", *more]


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_mirror_goes_on_over_sessions_and_a_changed_password(secured: Secured, tmp_path: Path, engine: str) -> None:
    """The password is changed at the broker first: what is refused meanwhile is told, and passes with the file. None of
    its processes can be seen to know it."""
    kafka, topic = secured.kafka, f"{tmp_path.name}-t"
    make_topic(kafka.bootstrap(), topic)
    options = arguments(secured, tmp_path, by_password(secured, "SCRAM-SHA-256", "JKS"), "--engine", engine)
    try:
        with mirroring(tmp_path, *options) as mirror:
            _mirrored(kafka, topic, 10)
            assert not any(_shows(pid, SECRET) for pid in [mirror.process.pid, *descendants(mirror.process.pid)])
            set_scram_password(kafka, "changed")
            wait_until(lambda: "user ann: SASL_AUTHENTICATION_FAILED" in mirror.said(), "the mirror tells of it")
            arguments(secured, tmp_path, by_password(secured, "SCRAM-SHA-256", "JKS", "changed"))
            _mirrored(kafka, topic, 20)
            assert mirror.stop() == 0, mirror.said()
            assert "changed" not in mirror.said()
            assert SECRET not in mirror.said()
    finally:
        set_scram_password(kafka, SECRET)


def test_a_stream_that_keeps_topics_goes_on_over_a_changed_password(secured: Secured, tmp_path: Path) -> None:
    """Its server and its readers: what is refused meanwhile is told, and passes with the file; no command is needed."""
    kafka, topic = secured.kafka, f"{tmp_path.name}-kept"
    make_topic(kafka.bootstrap(), topic)
    try:
        with running(tmp_path) as site, Carrier(site):
            replica = Replica(site, tmp_path, "")
            written(replica.file, by_password(secured, "SCRAM-SHA-256", "PKCS12"))
            replica.set_up(topic)
            for password in (SECRET, "changed"):
                set_scram_password(kafka, password)
                if password != SECRET:
                    wait_until(lambda: "SASL_AUTHENTICATION_FAILED" in str(replica.row["errors"]), "it is told")
                written(replica.file, by_password(secured, "SCRAM-SHA-256", "PKCS12", password))
                produce(kafka.bootstrap(), topic, [(b"k", b"v")] * 10)
                wait_until(lambda: replica.kept(topic, 1) == batches(kafka.bootstrap(), topic, 1), "all is there")
    finally:
        set_scram_password(kafka, SECRET)


def _shows(pid: int, secret: str) -> bool:
    """Whether the command line or the environment of a process says it."""
    with suppress(OSError):  # it has ended
        return any(secret.encode() in Path(f"/proc/{pid}/{what}").read_bytes() for what in ("cmdline", "environ"))
    return False


def _mirrored(kafka: KafkaNodes, topic: str, until: int) -> None:
    produce(kafka.bootstrap(), topic, [(b"k", b"v")] * 10)
    wait_until(lambda: count(kafka.bootstrap(), f"to-{topic}") == until, f"{until} records are mirrored")


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("password", "user ann: SASL_AUTHENTICATION_FAILED"),
        ("late", "does not take our certificate"),
        ("store", "trust.jks: "),
        ("stranger", "its certificate is not trusted"),
        ("token", "by a token: SASL_AUTHENTICATION_FAILED"),
    ],
)
def test_what_is_not_believed_is_one_line_and_exit_1(secured: Secured, tmp_path: Path, case: str, said: str) -> None:
    """And no line has a secret."""
    entries = {
        "password": lambda: by_password(secured, "PLAIN", "PEM", "guessed-word"),
        "late": lambda: by_certificate(secured, "late.p12", "PKCS12"),
        "store": lambda: by_password(secured, "PLAIN", "JKS") | {"ssl.truststore.password": "guessed-word"},
        "stranger": lambda: {k: v for k, v in by_password(secured, "PLAIN", "PEM").items() if "truststore" not in k},
        "token": lambda: by_token(secured, "PEM") | {"sasl.jaas.config": _token_without_a_name()},
    }[case]()
    mirror = MirrorProcess(tmp_path, arguments(secured, tmp_path, entries))
    assert mirror.wait() == 1
    (line,) = [line for line in mirror.said().splitlines() if said in line]
    assert line.startswith("fairlead: ")
    assert "guessed-word" not in mirror.said()
    assert SECRET not in mirror.said()
    assert "Traceback" not in mirror.said()


def _token_without_a_name() -> str:
    return f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_scope="x";'


async def test_a_wrong_password_is_asked_with_once(secured: Secured, tmp_path: Path) -> None:
    (wire,) = (node.wire for node in secured.kafka.nodes)
    assert wire is not None
    before = wire.connections
    with pytest.raises(NotAllowed):
        async with opened(written(tmp_path / "client.config", by_password(secured, "PLAIN", "PEM", "guessed"))):
            pass
    assert wire.connections == before + 1
