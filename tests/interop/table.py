"""Runs the interop tests and prints a table of client x behaviour: `python -m tests.interop.table [pytest options]`.

`ok`, the number of tests that failed, or `-` where the client does not offer the behaviour. The exit code is pytest's.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tests.interop.clients import CLIENTS
from tests.interop.clients.base import Client

ROWS = {
    "test_what_it_sends_is_stored": "produce",
    "test_the_verifiable_producer_has_everything_acknowledged": "produce",
    "test_it_reads_what_is_stored": "consume",
    "test_it_reads_what_was_claimed": "consume",
    "test_headers_are_kept": "headers",
    "test_every_codec_is_carried_untouched": "compression: gzip, snappy, lz4, zstd",
    "test_every_codec_is_read": "compression: gzip, snappy, lz4, zstd",
    "test_an_answer_that_was_lost_doubles_nothing": "idempotence, lost answers",
    "test_what_it_sends_at_a_copy_is_stored_at_the_owner": "produce at a copy",
    "test_an_answer_that_the_owner_loses_doubles_nothing": "produce at a copy",
    "test_the_first_offset_of_a_time_is_found": "seek by time",
    "test_a_group_shares_partitions_and_goes_on_where_it_stopped": "groups with rebalance",
    "test_only_what_moves_is_given_up_in_an_incremental_rebalance": "incremental (cooperative) rebalances",
    "test_members_of_two_languages_rebalance_incrementally": "incremental (cooperative) rebalances",
    "test_a_static_member_comes_back_to_its_partitions": "static members",
    "test_another_of_its_name_ends_a_static_member": "static members",
    "test_java_and_c_members_share_a_group": "groups with rebalance",
    "test_a_group_goes_on_after_a_restart": "groups over a restart",
    "test_a_record_that_the_disk_keeps_waiting_fails_in_time": "timeouts of producers",
    "test_an_answer_later_than_the_client_waits_doubles_nothing": "timeouts of producers",
    "test_a_record_fails_in_time_while_no_server_is_there": "timeouts of producers",
    "test_a_server_that_is_started_again_under_way_gets_everything_once": "produce over a restart",
    "test_a_producer_is_told_that_a_record_without_key_is_not_taken": "what topics demand of records",
    "test_java_shows_why_a_record_is_not_taken": "what topics demand of records",
    "test_a_subscription_from_before_the_topic_existed_is_served": "subscribed before the topic exists",
    "test_a_gap_is_passed": "gaps, also at the end",
    "test_a_gap_at_the_end_is_passed": "gaps, also at the end",
    "test_a_partition_that_is_all_gap_is_read_to_its_end": "gaps, also at the end",
    "test_only_committed_records_are_read": "isolation level",
    "test_a_java_consumer_goes_on_at_the_replica": "committed epoch, moved to a replica",
    "test_java_consumer_in_the_diverged_tail": "back to where histories part",
    "test_librdkafka_consumer_in_the_diverged_tail": "back to where histories part",
    "test_aiokafka_group_in_the_diverged_tail": "back to where histories part",
    "test_cooperative_consumer_in_the_diverged_tail": "back to where histories part",
    "test_librdkafka_consumer_without_a_group_goes_back_by_epochs": "back to where histories part",
    "test_a_store_is_restored_from_its_changelog": "state restored from a changelog",
    "test_a_counting_application_goes_on_after_a_restart_and_without_its_state": "state restored from a changelog",
    "test_spark_reads_a_batch_and_copies_a_stream": "batch and streaming queries",
    "test_a_sinks_offsets_are_reset_and_set": "connectors' offsets reset and set",
    "test_a_sources_offsets_are_reset": "connectors' offsets reset and set",
    "test_the_client_compatibility_test_passes": "ClientCompatibilityTest",
    "test_what_is_refused_is_shown_as_the_guide_says": "clear refusals: transactions, KIP-848",
}
"""Behaviour by test; what is not here is administration."""
ADMINISTRATION = "administration"
FIXTURES = {
    "streams": "Kafka Streams",
    "connect": "Kafka Connect",
    "quixstreams": "quixstreams",
    "spark_jars": "Spark's connector",
    "tools": "Kafka 4 tools",
    "java": "Kafka 4 tools",
    "kcat": "kcat",
}
"""Clients of tests that are not run for each; the first that a test has counts."""
COLUMNS = tuple(dict.fromkeys([*(client.name for client in CLIENTS), *FIXTURES.values()]))


class Outcomes:
    """A plugin that counts what passed and failed, by client and behaviour."""

    def __init__(self) -> None:
        self.failed: dict[tuple[str, str], int] = defaultdict(int)
        self._of: dict[str, tuple[str, str]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            assert isinstance(item, pytest.Function)
            self._of[item.nodeid] = _client(item), ROWS.get(item.originalname, ADMINISTRATION)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self.failed[self._of[report.nodeid]] += not report.passed

    def table(self) -> Table:
        table = Table(title="Kafka clients and what they do with this broker")
        table.add_column("behaviour", no_wrap=True)
        for client in COLUMNS:
            table.add_column(client, justify="center")
        for behaviour in [*dict.fromkeys(ROWS.values()), ADMINISTRATION]:
            table.add_row(behaviour, *(self._cell(client, behaviour) for client in COLUMNS))
        return table

    def _cell(self, client: str, behaviour: str) -> str:
        failed = self.failed.get((client, behaviour))
        if failed is None:
            return "-"
        return f"[red]{failed} failed[/red]" if failed else "[green]ok[/green]"


def _client(item: pytest.Function) -> str:
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    for client in given:
        if isinstance(client, Client):
            return client.name
    return next((name for fixture, name in FIXTURES.items() if fixture in item.fixturenames), "confluent-kafka")


def main(options: list[str]) -> int:
    outcomes = Outcomes()
    here = str(Path(__file__).parent)
    code = pytest.main(["-q", "-W", "ignore", here, *options], plugins=[outcomes])
    Console(width=None if sys.stdout.isatty() else 180).print(outcomes.table())
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
