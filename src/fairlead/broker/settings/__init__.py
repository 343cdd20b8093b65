"""Kafka's settings of topics and of the broker.

    kinds.py           what a value may be, with Kafka's messages
    topic_settings.py  the settings of a topic, and what holds for it
    configs.py         settings as DescribeConfigs shows them, with their sources
    record_rules.py    what a topic's settings demand of each record that is produced

In: names and values that a client chose, or that came with a stranger's row. Always true: every setting of Kafka's is
kept as it was given, and what is shown is what holds.
"""
