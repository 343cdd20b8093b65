"""What a Kafka user's property file says, as the settings of clients.

    clients.py      Kafka's own settings of consumers and producers: keys, defaults, what is not known
    credentials.py  `security.protocol` and what belongs to it; oauth.py: tokens; jaas.py: `sasl.jaas.config`
    properties.py   the file; entries.py: its entries while they are read
    settings.py     what comes out

In: text. Out: settings, and warnings that name the key. Always true: a secret stands in no message. It asks no cluster.
"""
