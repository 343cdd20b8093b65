"""Settings as Kafka's users write them."""

from __future__ import annotations

import pytest

from fairlead.kafka.configuration.clients import consumer_settings, producer_settings
from fairlead.kafka.configuration.settings import Kerberos, OAuthBearer, Reset, Sasl, Store, TokenEndpoint
from fairlead.model.addresses import Address
from fairlead.model.errors import InvalidValue

BROKER = {"bootstrap.servers": "127.0.0.1:9092"}
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="a\\"b;=";'


def test_defaults_are_kafkas_but_for_how_much_of_a_partition_is_asked_for() -> None:
    settings, warnings = consumer_settings(BROKER, "c")
    assert warnings == []
    assert (settings.group_id, settings.auto_offset_reset, settings.read_committed) == (None, Reset.LATEST, False)
    assert (settings.fetch.max_bytes, settings.fetch.partition_bytes) == (52_428_800, 4_194_304)
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
        "metadata.max.age.ms": "9",
        "client.id": "me",
    }
    settings, warnings = consumer_settings(given, "c")
    assert warnings == []
    assert (settings.group_id, settings.auto_offset_reset, settings.read_committed) == ("g", Reset.EARLIEST, True)
    fetch, client = settings.fetch, settings.client
    assert (fetch.max_bytes, fetch.partition_bytes, fetch.min_bytes, fetch.max_wait_ms) == (1, 2, 3, 4)
    assert (client.request_timeout_ms, client.retry_backoff_ms, client.retry_backoff_max_ms) == (5, 6, 7)
    assert (client.connect_timeout_ms, client.metadata_max_age_ms, client.client_id) == (8, 9, "me")
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
        ("config.providers", "file", "config.providers is not done here: write the values themselves into the file"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_file_and_key(key: str, value: str, message: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        consumer_settings(BROKER | {key: value}, "c.config")
    assert str(raised.value).startswith(f"c.config: {message}")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("acks", "2", "acks is '2'; it may be all, -1, 1, 0"),
        ("compression.type", "brotli", "compression.type is 'brotli'; it may be none, gzip"),
        ("max.request.size", "1 MB", "max.request.size is '1 MB'; write a whole number"),
        ("transaction.timeout.ms", "0", "transaction.timeout.ms is 0; it may be from 1 to"),
    ],
)
def test_so_is_one_of_a_producer(key: str, value: str, message: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        producer_settings(BROKER | {key: value}, "p.config")
    assert str(raised.value).startswith(f"p.config: {message}")


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
        ({"sasl.mechanism": "NTLM"}, "sasl.mechanism is NTLM, which is not built; there are PLAIN"),
        ({"sasl.mechanism": "GSSAPI"}, "names PlainLoginModule, which is not for sasl.mechanism=GSSAPI"),
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


def test_stores_are_of_three_kinds_with_passwords_that_are_shown_nowhere() -> None:
    """JKS where nothing is said, as in Java."""
    given = BROKER | {
        "security.protocol": "SSL",
        "ssl.truststore.location": "trust.jks",
        "ssl.truststore.password": "hidden",
        "ssl.keystore.location": "own.p12",
        "ssl.keystore.type": "pkcs12",
        "ssl.keystore.password": "hidden too",
        "ssl.key.password": "hidden key",
    }
    settings, warnings = consumer_settings(given, "c")
    assert warnings == []
    tls = settings.client.security.tls
    assert tls is not None
    assert (tls.authorities, tls.check_name) == (Store("trust.jks", "JKS", "hidden"), True)
    assert (tls.certificate, tls.key_password) == (Store("own.p12", "PKCS12", "hidden too"), "hidden key")
    assert "hidden" not in repr(settings)
    with pytest.raises(InvalidValue, match=r"ssl\.keystore\.type is 'BCFKS'; it may be JKS, PKCS12, PEM"):
        consumer_settings(given | {"ssl.keystore.type": "BCFKS"}, "c")


BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
OAUTH = BROKER | {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
ENDPOINT = {"sasl.oauthbearer.token.endpoint.url": "https://idp/token"}


def test_tokens_are_asked_for_by_what_kip_768_says() -> None:
    """The class that Java loads for it is taken, and so are the newer keys of KIP-1139."""
    handler = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
    jaas = f'{BEARER} clientId="us" clientSecret="hidden" scope="s" extension_tenant="x";'
    more = {"sasl.login.callback.handler.class": handler, "sasl.login.read.timeout.ms": "5", "sasl.jaas.config": jaas}
    settings, warnings = consumer_settings(OAUTH | ENDPOINT | more, "c")
    assert warnings == []
    endpoint = TokenEndpoint("https://idp/token", "us", "hidden", "s", timeout_ms=5)
    assert settings.client.security.sasl == OAuthBearer(endpoint, extensions=(("tenant", "x"),))
    assert "hidden" not in repr(settings)
    newer = {f"sasl.oauthbearer.client.credentials.client.{each}": each for each in ("id", "secret")}
    sasl = consumer_settings(OAUTH | ENDPOINT | newer, "c").settings.client.security.sasl
    assert sasl == OAuthBearer(TokenEndpoint("https://idp/token", "id", "secret"))


def test_a_token_that_nobody_signs_has_the_claims_that_are_asked_for() -> None:
    jaas = (
        f'{BEARER} unsecuredLoginStringClaim_sub="ann" unsecuredLoginNumberClaim_n="1.5" '
        'unsecuredLoginListClaim_scope="|a|b" unsecuredLoginLifetimeSeconds="60";'
    )
    sasl = consumer_settings(OAUTH | {"sasl.jaas.config": jaas}, "c").settings.client.security.sasl
    assert sasl == OAuthBearer({"sub": "ann", "n": 1.5, "scope": ["a", "b"]}, 60)


KERBEROS = BROKER | {"security.protocol": "SASL_SSL"}
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"


def test_kerberos_is_what_is_meant_where_no_mechanism_is_named() -> None:
    """Kafka's default."""
    jaas = f'{KRB5} useKeyTab=true keyTab="/k" principal="us@R";'
    given = KERBEROS | {"sasl.kerberos.service.name": "kafka", "sasl.jaas.config": jaas}
    settings, warnings = consumer_settings(given, "c")
    assert warnings == []
    assert settings.client.security.sasl == Kerberos("kafka", "us@R", "/k")
    jaas = f"{KRB5} useTicketCache=true serviceName=k;"
    settings, _ = consumer_settings(KERBEROS | {"sasl.jaas.config": jaas}, "c")
    assert settings.client.security.sasl == Kerberos("k")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (OAUTH, "sasl.oauthbearer.token.endpoint.url is missing"),
        (OAUTH | ENDPOINT, "lacks clientId or clientSecret"),
        (OAUTH | {"sasl.oauthbearer.token.endpoint.url": "idp/token"}, "it begins with https://"),
        (OAUTH | {"sasl.login.callback.handler.class": "com.acme.Handler"}, "names Handler, which is Java"),
        (OAUTH | {"sasl.jaas.config": f'{BEARER} unsecuredLoginNumberClaim_n="x";'}, "which is no number"),
        (KERBEROS, "sasl.kerberos.service.name is missing"),
    ],
)
def test_what_a_mechanism_lacks_is_an_error_that_names_it(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        consumer_settings(given, "c")


def test_host_names_are_checked_unless_it_is_said_that_they_are_not() -> None:
    given = BROKER | {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    settings, warnings = consumer_settings(given, "c")
    tls = settings.client.security.tls
    assert tls is not None
    assert not tls.check_name
    assert warnings == []
