"""Every handler, by name. A new API is a file in `handlers/` and a line here."""

from __future__ import annotations

from fairlead.broker.dispatch import table_of
from fairlead.broker.handlers.cluster import (
    api_versions,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_log_dirs,
    describe_quorum,
    elect_leaders,
    list_partition_reassignments,
    sasl_handshake,
)
from fairlead.broker.handlers.configs import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from fairlead.broker.handlers.groups import (
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from fairlead.broker.handlers.records import (
    delete_records,
    describe_producers,
    fetch,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from fairlead.broker.handlers.topics import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_topic_partitions,
    metadata,
)

APIS = table_of(
    (
        alter_configs,
        api_versions,
        consumer_group_heartbeat,
        create_partitions,
        create_topics,
        delete_groups,
        delete_records,
        delete_topics,
        describe_acls,
        describe_client_quotas,
        describe_cluster,
        describe_configs,
        describe_groups,
        describe_log_dirs,
        describe_producers,
        describe_quorum,
        describe_topic_partitions,
        elect_leaders,
        fetch,
        find_coordinator,
        heartbeat,
        incremental_alter_configs,
        init_producer_id,
        join_group,
        leave_group,
        list_config_resources,
        list_groups,
        list_offsets,
        list_partition_reassignments,
        metadata,
        offset_commit,
        offset_delete,
        offset_fetch,
        offset_for_leader_epoch,
        produce,
        sasl_handshake,
        sync_group,
    )
)
"""What is served, by API key."""

OFFERED = {key: api.versions for key, api in APIS.items()}
"""Versions by API key, as ApiVersions answers them."""
