"""One module per client; `CLIENTS` lists them."""

from __future__ import annotations

from tests.interop.clients.aiokafka_client import Aiokafka
from tests.interop.clients.base import Client
from tests.interop.clients.confluent_client import Confluent
from tests.interop.clients.kafka_python_client import KafkaPython
from tests.interop.clients.kafka_tools import KafkaTools
from tests.interop.clients.kcat_client import Kcat

CLIENTS: tuple[Client, ...] = (Confluent(), KafkaPython(), Aiokafka(), Kcat(), KafkaTools())
