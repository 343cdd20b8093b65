"""`fairlead mirror`: topics of one or more Kafka clusters copied to another one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairlead.mirror.told.words import USUAL, Words
from fairlead.process.interrupts import ending_at_once


def mirror(
    context: typer.Context,
    consumer_config: Annotated[
        list[Path] | None,
        typer.Option("--consumer.config", metavar="FILE", help="consumer properties of a source; repeat it for more"),
    ] = None,
    producer_config: Annotated[
        Path | None, typer.Option("--producer.config", metavar="FILE", help="producer properties of the destination")
    ] = None,
    mm2_config: Annotated[
        Path | None,
        typer.Option("--mm2.config", metavar="FILE", help="a property file of MirrorMaker 2, whose flows are mirrored"),
    ] = None,
    clusters: Annotated[
        list[str] | None,
        typer.Option("--clusters", metavar="NAMES", help="with --mm2.config: only flows to these clusters"),
    ] = None,
    whitelist: Annotated[
        str | None,
        typer.Option("--whitelist", "--include", metavar="REGEX", help="topics to mirror; a comma stands for |"),
    ] = None,
    blacklist: Annotated[
        str | None, typer.Option("--blacklist", "--exclude", metavar="REGEX", help="mirror all topics but these")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            "--engine", metavar="spark|local", help="who carries: tasks of Spark, or this process, which needs no Java"
        ),
    ] = USUAL.engine,
    num_streams: Annotated[
        int, typer.Option("--num.streams", help="workers (local: fetching streams of each source), 16 at most are used")
    ] = USUAL.streams,
    num_producers: Annotated[
        int,
        typer.Option("--num.producers", help="produce connections of each worker to each broker of the destination"),
    ] = USUAL.producers,
    preserve_partitions: Annotated[
        bool,
        typer.Option("--preserve.partitions", help="keep the number of the partition, whatever the destination has"),
    ] = False,
    preserve_order: Annotated[
        bool, typer.Option("--preserve.order", help="keep the order of records without a key too")
    ] = False,
    prefix: Annotated[str, typer.Option("--prefix", help="put this before the name of each topic")] = USUAL.prefix,
    source_alias: Annotated[
        list[str] | None,
        typer.Option("--source.alias", metavar="NAME", help="MirrorMaker 2's name of a source; one for each"),
    ] = None,
    target_alias: Annotated[
        str, typer.Option("--target.alias", metavar="NAME", help="MirrorMaker 2's name of the destination")
    ] = USUAL.target_alias,
    emit_heartbeats: Annotated[
        bool,
        typer.Option("--emit.heartbeats", help="write MirrorMaker 2's heartbeats at both ends"),
    ] = False,
    emit_heartbeats_interval_seconds: Annotated[
        int, typer.Option("--emit.heartbeats.interval.seconds", help="seconds between two heartbeats")
    ] = USUAL.heartbeats_seconds,
    emit_offset_syncs: Annotated[
        bool, typer.Option("--emit.offset.syncs", help="write MirrorMaker 2's offset syncs; needs --source.alias")
    ] = False,
    offset_syncs_location: Annotated[
        str, typer.Option("--offset.syncs.topic.location", help="source|target: where offset syncs are written")
    ] = USUAL.offset_syncs_location,
    offset_lag_max: Annotated[
        int, typer.Option("--offset.lag.max", help="records of a partition between two offset syncs")
    ] = USUAL.offset_lag_max,
    replication_factor: Annotated[
        int, typer.Option("--replication.factor", help="of topics that are made (-1: the destination's own)")
    ] = USUAL.replication,
    queue_size: Annotated[
        int, typer.Option("--queue.size", help="records of a partition that may be under way")
    ] = USUAL.queue_records,
    name: Annotated[
        str | None, typer.Option("--name", help="of the mirror, by which it finds its positions (default: group.id)")
    ] = None,
    message_handler: Annotated[
        str | None,
        typer.Option("--message.handler", metavar="MODULE:FUNCTION", help="a Python function that changes records"),
    ] = None,
    message_handler_args: Annotated[
        str | None, typer.Option("--message.handler.args", metavar="TEXT", help="the handler's second argument")
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="WHENCE",
            help="earliest (default), latest, group, mm1, mm2, a time or a file: where new partitions begin",
        ),
    ] = None,
    offset_commit_interval_ms: Annotated[
        int | None,
        typer.Option("--offset.commit.interval.ms", help="how often positions are written (default: each second)"),
    ] = None,
    abort_on_send_failure: Annotated[
        str | None,
        typer.Option(
            "--abort.on.send.failure", metavar="[true|false]", help="a refused batch ends the process (default: false)"
        ),
    ] = None,
    on_gap: Annotated[
        str, typer.Option("--on.gap", help="stop|continue: records expired at the source before they were mirrored")
    ] = USUAL.on_gap,
    on_truncated: Annotated[
        str, typer.Option("--on.truncated", help="stop|continue: the source has lost records that were mirrored")
    ] = USUAL.on_truncated,
    on_recreated: Annotated[
        str, typer.Option("--on.recreated", help="stop|continue: a topic was deleted and made again")
    ] = USUAL.on_recreated,
    exactly_once: Annotated[
        bool, typer.Option("--exactly.once", help="in transactions of the destination: each record arrives once")
    ] = False,
    groups: Annotated[
        str, typer.Option("--groups", metavar="REGEX", help="consumer groups that go with their topics")
    ] = USUAL.groups,
    groups_exclude: Annotated[
        str, typer.Option("--groups.exclude", metavar="REGEX", help="consumer groups that do not go with them")
    ] = USUAL.groups_exclude,
    groups_rewind: Annotated[
        bool, typer.Option("--groups.rewind", help="move groups backward too, as a failback may need it")
    ] = False,
    sync_group_offsets: Annotated[
        str,
        typer.Option("--sync.group.offsets", metavar="[true|false]", help="commit groups' offsets at the destination"),
    ] = USUAL.sync_group_offsets,
    sync_group_seconds: Annotated[
        int, typer.Option("--sync.group.offsets.interval.seconds", help="seconds between two looks at the groups")
    ] = USUAL.sync_group_seconds,
    sync_topic_configs: Annotated[
        str, typer.Option("--sync.topic.configs", metavar="[true|false]", help="settings of topics follow their source")
    ] = USUAL.sync_topic_configs,
    config_properties_exclude: Annotated[
        str | None,
        typer.Option(
            "--config.properties.exclude",
            metavar="REGEX",
            help="settings of topics that do not follow (default: MirrorMaker 2's)",
        ),
    ] = None,
    use_defaults_from: Annotated[
        str,
        typer.Option(
            "--use.defaults.from",
            metavar="[source|target]",
            help="whose defaults count for what is not set for a topic",
        ),
    ] = USUAL.use_defaults_from,
    sync_topic_acls: Annotated[
        bool, typer.Option("--sync.topic.acls", help="who may read a topic at the source, may read its copy")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="mirror what is there now, then end")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="show what would be mirrored, and from where; change nothing")
    ] = False,
    takeover: Annotated[
        bool, typer.Option("--takeover", help="start though another process may run this mirror; that one ends")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="progress with a line for each topic")] = False,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="serve a page, metrics, status, pause and resume there"),
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="--http may be reached from other machines")] = False,
    consumer_rebalance_listener: Annotated[
        str | None, typer.Option("--consumer.rebalance.listener", metavar="CLASS", help="has no effect here")
    ] = None,
    rebalance_listener_args: Annotated[
        str | None, typer.Option("--rebalance.listener.args", metavar="TEXT", help="has no effect here")
    ] = None,
    new_consumer: Annotated[bool, typer.Option("--new.consumer", help="has no effect here")] = False,
) -> None:
    """Mirror topics from Kafka clusters to another: at least or exactly once, in order, batches as they are."""
    with ending_at_once():
        from fairlead.mirror.mm2.config import flows_of
        from fairlead.mirror.run import run_until_told, warn
        from fairlead.mirror.told.command_line import checked

    idle = {
        "--consumer.rebalance.listener": consumer_rebalance_listener,
        "--rebalance.listener.args": rebalance_listener_args,
        "--new.consumer": new_consumer,
    }
    for option in (option for option, given in idle.items() if given):
        warn(f"{option} has no effect here: the mirror itself says who carries a partition, without rebalances")
    words = Words(
        consumer_configs=consumer_config or (),
        producer_config=producer_config,
        mm2_config=mm2_config,
        clusters=clusters or (),
        whitelist=whitelist,
        blacklist=blacklist,
        engine=engine,
        prefix=prefix,
        source_aliases=source_alias or (),
        target_alias=target_alias,
        heartbeats=emit_heartbeats,
        offset_syncs=emit_offset_syncs,
        offset_syncs_location=offset_syncs_location,
        offset_lag_max=offset_lag_max,
        heartbeats_seconds=emit_heartbeats_interval_seconds,
        replication=replication_factor,
        streams=num_streams,
        producers=num_producers,
        preserve_partitions=preserve_partitions,
        preserve_order=preserve_order,
        queue_records=queue_size,
        name=name,
        handler=message_handler,
        handler_args=message_handler_args,
        commit_interval_ms=offset_commit_interval_ms,
        abort_on_send_failure=abort_on_send_failure,
        begin=begin,
        on_gap=on_gap,
        on_truncated=on_truncated,
        on_recreated=on_recreated,
        exactly_once=exactly_once,
        groups=groups,
        groups_exclude=groups_exclude,
        groups_rewind=groups_rewind,
        sync_group_offsets=sync_group_offsets,
        sync_group_seconds=sync_group_seconds,
        sync_topic_configs=sync_topic_configs,
        config_properties_exclude=config_properties_exclude,
        use_defaults_from=use_defaults_from,
        sync_topic_acls=sync_topic_acls,
        once=once,
        dry_run=dry_run,
        takeover=takeover,
        verbose=verbose,
        http=http,
        insecure=insecure,
        given=_given(context),
    )
    raise typer.Exit(run_until_told(flows_of(checked(words), warn)))


def _given(context: typer.Context) -> frozenset[str]:
    """The options that stand on the command line, by their first names."""
    sources = {param.opts[0]: context.get_parameter_source(param.name or "") for param in context.command.params}
    return frozenset(option for option, source in sources.items() if source and source.name == "COMMANDLINE")
