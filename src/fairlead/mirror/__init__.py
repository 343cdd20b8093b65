"""`fairlead mirror`: topics of Kafka clusters, copied to another one at least or exactly once, in order, as they are.

In: options and two sorts of property files (`told/`). Out: batches at the destination; positions in a topic of the
mirror's own there; lines for people. Always true: a position covers only what the destination has
acknowledged, or what was left out for a reason that is told (`carrying/settled.py`); what comes from a partition goes
on in its order (`carrying/copying.py`); whatever is lost at the source before it was mirrored stops its partition,
unless the command line says otherwise (`settling.py`). Never: knows streams, or outside `spark/` Spark; a cluster of
Fairlead is one that speaks Kafka.

    names, aliases, options, lanes     what is chosen, what it is called, which lane a partition belongs to
    bytes/                     one batch into another; pure functions
    ports, clusters            what is asked of a Kafka cluster, and how that is asked over `fairlead.kafka`
    books/                     the topics in which mirrors keep their books: positions, holder, producers
    planning/, whence, configs         which topics go where, and from where on
    carrying/                  one partition on its way, and who carries it
    groups/                    consumer groups go with their topics
    following/                 settings and access rules of topics follow their source
    source, destination        the clusters of a mirror
    settling                   what becomes of partitions that cannot be fetched
    running/                   one mirror, from its start to its end
    told/, mm2/                what the command line says, and property files: of consumers and producers, or of
                               MirrorMaker 2
    workers/, spark/           partitions carried by other processes, and Spark that runs these
    engines, flowing, run      who carries; one mirror of the process, and all of them
    watching/                  how they are seen and paused while they run
    report                     what people are told
"""
