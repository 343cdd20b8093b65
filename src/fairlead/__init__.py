"""Fairlead: Kafka topics in streams, replicated between sites with their offsets kept."""

__version__ = "0.1.0"
