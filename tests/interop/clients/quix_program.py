"""A quixstreams application in a Python of its own: counts records by key in a store with a changelog, and writes each
count to a topic. Arguments: bootstrap address, topic, topic to write, folder of the local state. Ends on SIGTERM."""

import sys

from quixstreams import Application, State


def counted(_: bytes, state: State) -> str:
    """How many records of the key there were."""
    count = state.get("count", 0) + 1
    state.set("count", count)
    return str(count)


bootstrap, given, made, folder = sys.argv[1:]
application = Application(
    broker_address=bootstrap,
    consumer_group=f"counting-{given}",
    auto_offset_reset="earliest",
    state_dir=folder,
    commit_interval=0.2,
    consumer_extra_config={"session.timeout.ms": 6000, "heartbeat.interval.ms": 200},
)
counts = application.dataframe(application.topic(given, key_deserializer="str", value_deserializer="bytes"))
counts = counts.apply(counted, stateful=True)
counts.to_topic(application.topic(made, key_serializer="str", value_serializer="str"))
application.run()
