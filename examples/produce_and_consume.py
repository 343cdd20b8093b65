"""Produces three records and consumes them again: python examples/produce_and_consume.py [HOST:PORT]"""

import sys

from confluent_kafka import Consumer, Producer

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
producer = Producer({"bootstrap.servers": bootstrap})
for knots in ("12.5", "13.0", "13.4"):
    producer.produce("speed", knots, key="ever-given")
producer.flush()
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bridge", "auto.offset.reset": "earliest"})
consumer.subscribe(["speed"])
for message in consumer.consume(3, timeout=30):
    print(message.offset(), message.key(), message.value())
consumer.close()
