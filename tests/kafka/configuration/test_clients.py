"""Settings as Kafka's users write them."""

from __future__ import annotations

import pytest

from fairlead.kafka.configuration.clients import consumer_settings, producer_settings
from fairlead.kafka.configuration.settings import Reset, Sasl
from fairlead.model.addresses import Address
from fairlead.model.errors import InvalidValue

BROKER = {"bootstrap.servers": "127.0.0.1:9092"}
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="a\\"b;=";'


def test_defaults_are_kafkas() -> None:
    settings, warnings = consumer_settings(BROKER, "c")
    assert warnings == []
    assert (settings.group_id, settings.auto_offset_reset, settings.read_committed) == (None, Reset.LATEST, False)
    assert (settings.fetch.max_bytes, settings.fetch.partition_bytes) == (52_428_800, 1_048_576)
    assert (settings.fetch.min_bytes, settings.fetch.max_wait_ms) == (1, 500)
    assert settings.client.request_timeout_ms == 30_000
    producer, warnings = producer_settings(BROKER, "p")
    assert warnings == []
    assert (producer.produce.request_bytes_max, producer.compression) == (1_048_576, "none")


def test_each_setting_is_read() -> None:
    given = BROKER | {
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "fetch.max.bytes": "1",
        "max.partition.fetch.bytes": "2",
        "fetch.min.bytes": "3",
        "fetch.max.wait.ms": "4",
        "request.timeout.ms": "5",
        "retry.backoff.ms": "6",
        "retry.backoff.max.ms": "7",
        "socket.connection.setup.timeout.ms": "8",
        "client.id": "me",
    }
    settings, warnings = consumer_settings(given, "c")
    assert warnings == []
    assert (settings.group_id, settings.auto_offset_reset, settings.read_committed) == ("g", Reset.EARLIEST, True)
    fetch, client = settings.fetch, settings.client
    assert (fetch.max_bytes, fetch.partition_bytes, fetch.min_bytes, fetch.max_wait_ms) == (1, 2, 3, 4)
    assert (client.request_timeout_ms, client.retry_backoff_ms, client.retry_backoff_max_ms) == (5, 6, 7)
    assert (client.connect_timeout_ms, client.client_id) == (8, "me")
    own = {"max.request.size": "9", "max.in.flight.requests.per.connection": "1", "compression.type": "LZ4"}
    producer, warnings = producer_settings(BROKER | own, "p")
    assert warnings == []
    assert (producer.produce.request_bytes_max, producer.produce.in_flight_max) == (9, 1)
    assert producer.compression == "lz4"


def test_an_unknown_key_is_a_warning_that_names_it() -> None:
    """One that Kafka has and that means nothing here is another one."""
    _, warnings = consumer_settings(BROKER | {"fetch.mx.bytes": "1", "max.poll.records": "5"}, "c.config")
    assert warnings == [
        "c.config: fetch.mx.bytes is no setting that Kafka's clients have; is it misspelt?",
        "c.config: max.poll.records has no effect here",
    ]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("fetch.max.bytes", "many", "fetch.max.bytes is 'many'; write a whole number"),
        ("fetch.max.bytes", "0", "fetch.max.bytes is 0; it may be from 1 to"),
        ("isolation.level", "none", "isolation.level is 'none'; it may be read_uncommitted, read_committed"),
        ("auto.offset.reset", "begin", "auto.offset.reset is 'begin'; it may be earliest, latest, none"),
        ("bootstrap.servers", "here", "bootstrap.servers 'here': write HOST:PORT"),
        ("bootstrap.servers", ",", "bootstrap.servers names no broker"),
        ("security.protocol", "TLS", "security.protocol is 'TLS'; it may be PLAINTEXT, SSL"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_file_and_key(key: str, value: str, message: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        consumer_settings(BROKER | {key: value}, "c.config")
    assert str(raised.value).startswith(f"c.config: {message}")


def test_more_than_five_in_flight_are_refused() -> None:
    """As Kafka's idempotent producer does: more could not be told apart by a broker."""
    with pytest.raises(InvalidValue, match="from 1 to 5"):
        producer_settings(BROKER | {"max.in.flight.requests.per.connection": "6"}, "p")


def test_zookeeper_alone_is_an_error_that_says_what_to_write() -> None:
    """So do the property files of MirrorMaker's first years."""
    with pytest.raises(InvalidValue, match=r"write bootstrap\.servers=HOST:9092"):
        consumer_settings({"zookeeper.connect": "zk:2181", "group.id": "g"}, "c.config")
    _, warnings = consumer_settings(BROKER | {"zookeeper.connect": "zk:2181"}, "c.config")
    assert warnings == ["c.config: zookeeper.connect has no effect here"]


def test_an_empty_bootstrap_falls_back_to_the_old_list() -> None:
    given = {"bootstrap.servers": "", "metadata.broker.list": "a:1, PLAINTEXT://b:2"}
    settings, warnings = producer_settings(given, "p")
    assert settings.client.bootstrap == (Address("a", 1), Address("b", 2))
    assert warnings == ["p: metadata.broker.list is the old name of bootstrap.servers"]
    with pytest.raises(InvalidValue, match=r"bootstrap\.servers is missing"):
        producer_settings({}, "p")


def test_the_old_words_for_where_to_begin_are_taken() -> None:
    assert consumer_settings(BROKER | {"auto.offset.reset": "smallest"}, "c").settings.auto_offset_reset == "earliest"
    assert consumer_settings(BROKER | {"auto.offset.reset": "largest"}, "c").settings.auto_offset_reset == "latest"


def test_fewer_acknowledgements_are_not_taken_silently() -> None:
    _, warnings = producer_settings(BROKER | {"acks": "1"}, "p")
    assert warnings == ["p: acks is 1; here all replicas in sync always acknowledge"]


def test_a_password_is_read_from_jaas_and_shown_nowhere() -> None:
    given = BROKER | {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}
    settings, warnings = consumer_settings(given, "c")
    assert warnings == []
    assert settings.client.security.sasl == Sasl("PLAIN", "ann", 'a"b;=')
    assert settings.client.security.tls is not None
    assert 'a"b' not in repr(settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism is GSSAPI, which is not built; there are PLAIN"),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, "names PlainLoginModule, which is not for sasl.mechanism=SCRAM-SHA-256"),
        ({"sasl.jaas.config": "PlainLoginModule"}, "sasl.jaas.config: write `MODULE required"),
        ({"sasl.jaas.config": 'x.PlainLoginModule required username="a" password="hidden'}, "a quote is not closed"),
        ({"sasl.jaas.config": "x.PlainLoginModule required username=hidden;"}, "lacks username or password"),
        ({"sasl.jaas.config": "x.PlainLoginModule required username hidden = ;"}, "options are written NAME=VALUE"),
    ],
)
def test_credentials_that_cannot_be_are_an_error_without_the_secret(changes: dict[str, str], message: str) -> None:
    given = BROKER | {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}
    with pytest.raises(InvalidValue) as raised:
        consumer_settings(given | changes, "c")
    assert message in str(raised.value)
    assert "hidden" not in str(raised.value)


def test_a_store_that_is_not_pem_is_an_error_with_the_command_that_makes_it_one() -> None:
    given = BROKER | {"security.protocol": "SSL", "ssl.truststore.location": "trust.jks"}
    with pytest.raises(InvalidValue, match=r"keytool -list -rfc -keystore trust\.jks"):
        consumer_settings(given, "c")
    settings, _ = consumer_settings(given | {"ssl.truststore.type": "PEM"}, "c")
    assert settings.client.security.tls is not None
    assert (settings.client.security.tls.authorities, settings.client.security.tls.check_name) == ("trust.jks", True)


def test_host_names_are_checked_unless_it_is_said_that_they_are_not() -> None:
    given = BROKER | {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    tls = consumer_settings(given, "c").settings.client.security.tls
    assert tls is not None
    assert not tls.check_name
