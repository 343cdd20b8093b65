"""All commands of the admin interface, as the original's `maprcli stream …` and `mapr copystream` have them.

Names, defaults and meanings: the pages on MapR Streams and their command reference; those that the original does
not have are marked (ours). `docs/guides/commands.md` explains them for people.
"""

from __future__ import annotations

from dataclasses import replace

from fairlead.client.command import Command, Param

_FALSE = ("false", "0", "no", "off")

_PATH = Param("path", "stream", "path of the stream: /ships or /mapr/<cluster>/ships", required=True)
_TOPIC = Param("topic", "topic", "name of the topic", required=True)
_GROUP = Param("consumergroup", "text", "only cursors of this consumer group")
_SOME_TOPIC = Param("topic", "topic", "only cursors of this topic")
_SOME_PARTITION = Param("partition", "number", "only cursors of this partition (needs -topic)")
_REPLICA = Param("replica", "stream", "path of the replica: /mapr/<cluster>/ships", required=True)
_OF_SOURCE = Param("path", "source", "path of the source stream", required=True)
_SOURCE = replace(_OF_SOURCE, what="path of the source stream, or kafka://NAME of a Kafka cluster")
_OF_REPLICA = Param("path", "stream", "path of the replica stream", required=True)
_UPSTREAM = Param("upstream", "source", "path of the source: /mapr/<cluster>/ships", required=True, called=False)
_ANY_UPSTREAM = replace(_UPSTREAM, what="path of the source: /mapr/<cluster>/ships, or kafka://NAME")

_SETTINGS = (
    Param("ttl", "number", "life of a record in seconds; 0 keeps it for ever", default="604800"),
    Param("autocreate", "boolean", "make a topic when a client first asks for it", default="true"),
    Param("defaultpartitions", "number", "partitions of a new topic", default="1"),
    Param("compression", "text", "off, lz4, lzf or zlib; stored and shown, without effect yet", default="off"),
    Param("produceperm", "text", "who may publish (other than the default: not built yet)", default="u:<creator>"),
    Param("consumeperm", "text", "who may read (other than the default: not built yet)", default="u:<creator>"),
    Param("topicperm", "text", "who may change topics (other than the default: not built yet)", default="u:<creator>"),
    Param("copyperm", "text", "who may copy (other than the default: not built yet)", default="u:<creator>"),
    Param(
        "adminperm", "text", "who may change the stream (other than the default: not built yet)", default="u:<creator>"
    ),
    Param("defaulttimestamptype", "text", "createtime or logappendtime", default="createtime"),
    Param("pidexpirysecs", "number", "an idle producer's state is kept so long", default="604800"),
    Param("forwardwrites", "boolean", "pass a produce on to the neighbour that owns the topic (ours)", default="false"),
    Param("pending", "boolean", "put it aside while that neighbour cannot be reached (ours)", default="false"),
    Param(
        "conflicts",
        "text",
        "of a topic whose name another one holds: setaside, or alias for <topic>.at.<cluster> (ours)",
        default="setaside",
    ),
    Param("mincompactionlag", "number", "for compaction (not built yet), ms", default="0", only=("0",)),
    Param("deleteretention", "number", "for compaction (not built yet), ms", default="86400000", only=("86400000",)),
    Param("compact", "boolean", "not built yet", default="false", only=_FALSE),
)
_CHANGES = tuple(replace(param, default="as it is") for param in _SETTINGS)
_NOT_BUILT_LINK = (
    Param("throttle", "boolean", "not built yet", default="false", only=_FALSE),
    Param("networkencryption", "boolean", "not built yet", default="false", only=_FALSE),
    Param("synchronous", "boolean", "not built yet", default="false", only=_FALSE),
    Param("networkcompression", "text", "not built yet", default="off", only=("off",)),
)

_CHOSEN = (
    Param("topics", "text", "only topics whose whole names this regular expression matches (ours)", default="all"),
    Param("excludetopics", "text", "no topic whose whole name this regular expression matches (ours)", default="none"),
)
"""Which topics are meant, by regular expressions."""
_LINK = (
    Param("forward", "text", "all: also what the stream received; own: only its own records (ours)", default="all"),
    Param(
        "acceptwrites", "boolean", "take what the replica passes on of produces to our topics (ours)", default="false"
    ),
    *_CHOSEN,
    Param(
        "cursors",
        "text",
        "cursors of which groups go too: all, none, or groups whose whole names a regular expression matches (ours)",
        default="all",
    ),
    Param(
        "prefix",
        "text",
        "stands before the names of topics that come to the replica first by this link (ours)",
        default="none",
    ),
)
"""Options of a link, which may be given when it is made and changed while it runs."""
_FROM = Param(
    "from", "text", "beginning: all that is there comes; now: only what is written later (ours)", default="beginning"
)
_OF_KAFKA = (
    Param("consumerconfig", "text", "of kafka://NAME: a consumer's settings, a file on the replica's server (ours)"),
    Param(
        "deletes",
        "text",
        "of kafka://NAME: keep or follow topics and records that are deleted in Kafka (ours)",
        default="keep",
    ),
)
"""Options of a Kafka cluster whose topics a replica keeps."""
_LINK_PEER = (
    Param("peer", "text", "own: the replica is one of your own; partner: another company's (ours)", default="own"),
    Param(
        "ownership",
        "boolean",
        "the replica may say that our topics have another owner (ours)",
        default="true for own, false for partner",
    ),
)

_STREAM = ("stream",)
_STREAM_COMMANDS = (
    Command(
        _STREAM,
        "create",
        "Make a stream.",
        (
            _PATH,
            *_SETTINGS,
            Param("copymetafrom", "stream", "take the settings of this stream, here or in another cluster"),
            Param("ischangelog", "boolean", "not built yet", default="false", only=_FALSE),
            Param("shards", "number", "logs that the stream's topics are spread over (ours)", default="1"),
        ),
        changes=True,
    ),
    Command(
        _STREAM,
        "edit",
        "Change settings of a stream.",
        (
            _PATH,
            *_CHANGES,
            Param("force", "boolean", "only with -compact", default="false", only=_FALSE),
        ),
        changes=True,
    ),
    Command(_STREAM, "info", "Show a stream's settings and size.", (_PATH,)),
    Command(
        _STREAM,
        "list",
        "List streams.",
        (Param("path", "stream", "only streams below this path (ours)"),),
        columns=("path", "numtopics", "defaultpartitions", "ttl", "autocreate", "numreplicas", "numupstreams"),
    ),
    Command(
        _STREAM,
        "delete",
        "Delete a stream with all its topics and records.",
        (_PATH,),
        changes=True,
        asks="Delete the stream {path} with all its topics and records?",
    ),
    Command(
        _STREAM,
        "expose",
        "Show one stream as a Kafka cluster of its own, with plain topic names, on its own port (ours).",
        (
            _PATH,
            Param("port", "number", "port of the listener; 0 takes a free one"),
            Param("remove", "boolean", "end the listener", default="false"),
        ),
        changes=True,
    ),
    Command(
        _STREAM,
        "recover",
        "Bring back what a stream that was restored from a backup lacks, and let it be written again (ours).",
        (
            _PATH,
            Param("force", "boolean", "also without neighbours that are away; leave refused topics", default="false"),
            Param("dryrun", "boolean", "only show what would be cut and brought", default="false"),
        ),
        changes=True,
        goes_on="the recovery goes on, if the cluster was asked already; `fairlead job list` shows it",
    ),
)

_TOPIC_NOUN = ("stream", "topic")
_TIMESTAMP_TYPE = Param("timestamptype", "text", "createtime or logappendtime", default="the stream's")
_CHANGED_TYPE = replace(_TIMESTAMP_TYPE, default="as it is")
_TOPICS = Param(
    "topic",
    "text",
    "a name, a regular expression, or names with line breaks between; @FILE reads them from a file",
    required=True,
)
_TOPIC_COMMANDS = (
    Command(
        _TOPIC_NOUN,
        "create",
        "Make a topic.",
        (_PATH, _TOPIC, Param("partitions", "number", "partitions", default="the stream's"), _TIMESTAMP_TYPE),
        changes=True,
    ),
    Command(
        _TOPIC_NOUN,
        "edit",
        "Add partitions to a topic, or change its kind of time stamp.",
        (_PATH, _TOPIC, Param("partitions", "number", "partitions; more than now"), _CHANGED_TYPE),
        changes=True,
    ),
    Command(
        _TOPIC_NOUN,
        "info",
        "Show a topic, a row for each partition.",
        (_PATH, _TOPIC),
        columns=(
            "partitionid",
            "minoffset",
            "maxoffset",
            "topicepoch",
            "owner",
            "ownersince",
            "pendingrecords",
            "handover",
            "diverged",
            "divergedfrom",
            "putaside",
            "putasidefor",
            "unclaimedrecords",
            "conflicts",
            "timestamptype",
        ),
    ),
    Command(
        _TOPIC_NOUN,
        "list",
        "List the topics of a stream.",
        (
            _PATH,
            Param("owner", "text", "only topics that this cluster, or the stream at this path, owns (ours)"),
            *_CHOSEN,
        ),
        columns=("topic", "partitions", "consumers", "maxlag", "owner"),
    ),
    Command(
        _TOPIC_NOUN,
        "delete",
        "Delete a topic with its records and cursors.",
        (_PATH, _TOPIC),
        changes=True,
        asks="Delete the topic {topic} of {path} with all its records?",
    ),
    Command(
        _TOPIC_NOUN,
        "transfer",
        "Hand topics over to the stream of a neighbour, which owns them from then on (ours).",
        (
            _PATH,
            _TOPICS,
            Param("to", "text", "cluster of the replica that is to own them, or its path", required=True),
            Param("force", "boolean", "also what the replica lacks, set aside or has no room for", default="false"),
            Param("oneway", "boolean", "also to a replica that has no link back", default="false"),
            Param("dryrun", "boolean", "only say what would be refused", default="false"),
        ),
        changes=True,
        asks="Hand the topics {topic} of {path} over to {to}? From then on they are written there only.",
        goes_on="the transfer goes on, if the cluster was asked already; `fairlead job list` shows it",
    ),
    Command(
        _TOPIC_NOUN,
        "takeover",
        "Own topics whose owner is lost: this copy is what goes on (ours).",
        (
            _PATH,
            replace(_TOPICS, required=False),
            Param("from", "text", "all topics that this cluster, the stream at this path, or kafka://NAME owns"),
            Param(
                "force",
                "boolean",
                "also while the owner answers, or a neighbour has what cannot be brought",
                default="false",
            ),
            Param("dryrun", "boolean", "only say what would be brought, and refused", default="false"),
        ),
        changes=True,
        goes_on="the takeover goes on, if the cluster was asked already; `fairlead job list` shows it",
    ),
    Command(
        _TOPIC_NOUN,
        "claim",
        "Append what diverged and pending topics keep to the topics that it was meant for, each record once (ours).",
        (
            _PATH,
            Param(
                "topic",
                "text",
                "a diverged topic, a regular expression, or names with line breaks between; @FILE reads them from a "
                "file",
                required=True,
            ),
            Param("into", "text", "another topic that is to have the records"),
            Param("dryrun", "boolean", "only say how many records would come", default="false"),
        ),
        changes=True,
        goes_on="the claim goes on, if the cluster was asked already; `fairlead job list` shows it",
    ),
    Command(
        _TOPIC_NOUN,
        "resolve",
        "End a conflict of a topic's name, or take a topic again that was deleted here (ours).",
        (
            _PATH,
            _TOPIC,
            Param("rename", "text", "at the topic's owner: the name that it has from now on, wherever it is"),
            Param("as", "text", "where a topic waits for that name: the name that it gets here"),
            Param("take", "text", "source: again from its source; what has its name is deleted", only=("source",)),
        ),
        changes=True,
        asks="End the conflict of the topic {topic} of {path} so? With -take, what has this name here is deleted.",
    ),
)

_JOB = ("job",)
_ID = Param("id", "text", "id of the job, as `job list` shows it", required=True)
_JOB_COLUMNS = ("id", "kind", "path", "state", "topics", "done", "refused", "waitsfor", "error")
_JOB_COMMANDS = (
    Command(_JOB, "list", "List the jobs that run, and those that ended lately (ours).", columns=_JOB_COLUMNS),
    Command(_JOB, "show", "Show how far a job is, and which topics it refused (ours).", (_ID,)),
    Command(
        _JOB,
        "cancel",
        "End a job; what it has done stays (ours).",
        (_ID,),
        changes=True,
        asks="End the job {id}? What it has done stays.",
    ),
)

_CURSOR = ("stream", "cursor")
_CURSOR_COMMANDS = (
    Command(
        _CURSOR,
        "list",
        "List the committed offsets of consumer groups.",
        (_PATH, _GROUP, _SOME_TOPIC, _SOME_PARTITION),
        columns=("consumergroup", "topic", "partitionid", "committedoffset", "produceroffset", "consumerlagmillis"),
    ),
    Command(
        _CURSOR,
        "delete",
        "Delete committed offsets of consumer groups.",
        (_PATH, _GROUP, _SOME_TOPIC, _SOME_PARTITION),
        changes=True,
        asks="Delete the chosen cursors of {path}?",
    ),
    Command(
        _CURSOR,
        "adopt",
        "Let a group go on here from what was committed at another site last (ours).",
        (_PATH, Param("consumergroup", "text", "the consumer group", required=True), _SOME_TOPIC, _SOME_PARTITION),
        changes=True,
        asks="Let {consumergroup} go on in {path} from what was committed at another site?",
    ),
    Command(
        ("stream", "failover"),
        "preview",
        "Show where a group would go on in this cluster if it came here now (ours).",
        (_PATH, Param("group", "text", "the consumer group", required=True)),
        columns=(
            "topic",
            "partitionid",
            "committedoffset",
            "goesonat",
            "skips",
            "readsagain",
            "commitageseconds",
            "committedin",
        ),
    ),
)

_REPLICA_NOUN = ("stream", "replica")
_REPLICA_COMMANDS = (
    Command(
        _REPLICA_NOUN,
        "add",
        "Name a replica of a stream (the replica must name its upstream too).",
        (
            _OF_SOURCE,
            _REPLICA,
            Param("paused", "boolean", "do not start yet", default="false"),
            _FROM,
            *_LINK_PEER,
            *_LINK,
            *_NOT_BUILT_LINK,
        ),
        changes=True,
    ),
    Command(
        _REPLICA_NOUN,
        "autosetup",
        "Make a replica, name it on both sides, copy what is there and start.",
        (
            _SOURCE,
            _REPLICA,
            Param("multimaster", "boolean", "also the other way: each feeds the other", default="false"),
            Param(
                "directcopy",
                "boolean",
                "the link copies what is there; false: `copystream` does, and the link begins after it",
                default="true",
            ),
            Param("useexistingreplica", "boolean", "the replica may be there already", default="false"),
            Param("paused", "boolean", "do not start yet (ours)", default="false"),
            _FROM,
            *_LINK,
            *_OF_KAFKA,
            *_NOT_BUILT_LINK,
        ),
        changes=True,
        goes_on="the cluster goes on, if it was asked already: it makes {replica} and copies what is there; "
        "`fairlead stream replica list -path {path}` shows how far it is, the same command with --wait waits for it, "
        "`fairlead stream replica remove -path {path} -replica {replica}` ends it and leaves what was copied",
    ),
    Command(
        _REPLICA_NOUN,
        "list",
        "List the replicas of a stream and how far they are.",
        (_SOURCE, Param("refreshnow", "boolean", "accepted; numbers are always fresh", default="false")),
    ),
    Command(
        _REPLICA_NOUN,
        "edit",
        "Change a replica's settings.",
        (
            _SOURCE,
            _REPLICA,
            Param("newreplica", "stream", "where the replica is now: its path, and the addresses of its cluster"),
            *(replace(param, default="as it is") for param in (*_LINK_PEER, *_LINK, *_OF_KAFKA, *_NOT_BUILT_LINK)),
        ),
        changes=True,
    ),
    Command(_REPLICA_NOUN, "pause", "Stop sending to a replica, for now.", (_SOURCE, _REPLICA), changes=True),
    Command(
        _REPLICA_NOUN,
        "resume",
        "Go on sending to a replica.",
        (_SOURCE, _REPLICA, Param("rescan", "boolean", "read the whole log again (ours)", default="false")),
        changes=True,
    ),
    Command(
        _REPLICA_NOUN,
        "remove",
        "End replication to a replica; it keeps what it has.",
        (_SOURCE, _REPLICA),
        changes=True,
        asks="Remove the replica {replica} of {path}?",
    ),
)

_UPSTREAM_NOUN = ("stream", "upstream")
_PEER = Param(
    "peer",
    "text",
    "own: the source brings topics of any owner; partner: only its own (ours)",
    default="own",
)
_ORIGINS = Param(
    "origins", "text", "ids of streams whose topics a partner may bring too, with commas between (ours)", default="none"
)
_OWNERSHIP = Param(
    "ownership",
    "boolean",
    "the source may give our topics another owner (ours)",
    default="true for own, false for partner",
)
_MULTIMASTER = Param(
    "multimaster",
    "boolean",
    "the replica feeds the source too, and each makes and writes topics of its own (ours)",
    default="false",
)
_UPSTREAM_COMMANDS = (
    Command(
        _UPSTREAM_NOUN,
        "add",
        "Let a replica accept a source.",
        (_OF_REPLICA, _UPSTREAM, _PEER, _ORIGINS, _OWNERSHIP, _MULTIMASTER),
        changes=True,
    ),
    Command(
        _UPSTREAM_NOUN,
        "edit",
        "Change what a source may bring to a replica (ours).",
        (
            _OF_REPLICA,
            _UPSTREAM,
            *(replace(param, default="as it is") for param in (_PEER, _ORIGINS, _OWNERSHIP, _MULTIMASTER)),
        ),
        changes=True,
    ),
    Command(
        _UPSTREAM_NOUN,
        "list",
        "List the sources that a replica accepts, and copies into it that are under way.",
        (_OF_REPLICA,),
        columns=("upstream", "peer", "origins", "ownership", "multimaster", "copy"),
    ),
    Command(
        _UPSTREAM_NOUN,
        "remove",
        "Let a replica accept a source no more, nor its copies.",
        (_OF_REPLICA, _ANY_UPSTREAM),
        changes=True,
        asks="Remove the upstream {upstream} of {path}?",
    ),
)

_NOT_BUILT = (
    Command(_STREAM, "purge", "Drop what has expired now (not built yet).", (_PATH,), changes=True, built=False),
    Command(
        ("stream", "assign"),
        "list",
        "Show which consumer has which partitions (not built yet).",
        (_PATH, _GROUP, _SOME_TOPIC, _SOME_PARTITION, Param("detail", "boolean", "with inner values", default="false")),
        built=False,
    ),
)

_COPY = (
    Param("src", "stream", "path of the stream to copy", required=True),
    Param(
        "dst",
        "stream",
        "path of the copy; the command line makes it, with the source's settings, if it is not there",
        required=True,
    ),
)
_INTO = Param("path", "stream", "path of the stream that is copied into", required=True)
_FROM = Param(
    "from", "stream", "path of the stream that may be copied: /mapr/<cluster>/ships", required=True, called=False
)
_COPY_COMMANDS = (
    Command(
        ("copystream",),
        "start",
        "Copy a stream as it is now, keeping offsets and owners.",
        (
            *_COPY,
            Param("mapreduce", "boolean", "only false: Spark copies", default="false", only=_FALSE),
            Param("numthreads", "number", "accepted, without effect", default="16"),
        ),
        changes=True,
        goes_on="the copy to {dst} goes on, if the cluster was asked already; the same command waits for its end",
    ),
    Command(("copystream",), "status", "Show how far a copy is (ours).", _COPY),
    Command(("copystream",), "allow", "Let a stream be copied into, once (ours).", (_INTO, _FROM, _PEER), changes=True),
    Command(
        ("copystream",),
        "list",
        "List the copies that a stream allows and that have not begun (ours).",
        (_INTO,),
        columns=("from", "peer", "allowedat"),
    ),
    Command(("copystream",), "remove", "Allow a copy no more (ours).", (_INTO, _FROM), changes=True),
)
_CLUSTER_COMMANDS = (Command(("cluster",), "info", "Show the cluster: name, addresses, streams, links."),)
_CLOCK_COMMANDS = (
    Command(
        ("clock",),
        "show",
        "Show whether records expire, or the clock is not believed (ours).",
        columns=("path", "expiry", "clockaheadmillis", "heldmillis", "leftmillis", "why"),
    ),
    Command(
        ("clock",),
        "accept",
        "Believe the cluster's clock as it is now, so that records expire again (ours).",
        changes=True,
        asks="Is the clock of the cluster right? What is too old by it expires now.",
        columns=("path", "clockaheadmillis"),
    ),
)

COMMANDS = (
    *_STREAM_COMMANDS,
    *_TOPIC_COMMANDS,
    *_CURSOR_COMMANDS,
    *_REPLICA_COMMANDS,
    *_UPSTREAM_COMMANDS,
    *_NOT_BUILT,
    *_COPY_COMMANDS,
    *_CLUSTER_COMMANDS,
    *_CLOCK_COMMANDS,
    *_JOB_COMMANDS,
)
BY_PATH = {command.path: command for command in COMMANDS}
