"""The behaviours of the table, by test function."""

from __future__ import annotations

BEHAVIOURS = {
    "test_what_it_sends_is_stored": "produce",
    "test_it_reads_what_is_stored": "consume",
    "test_every_codec_is_carried_untouched": "compression",
    "test_every_codec_is_read": "compression",
    "test_headers_are_kept": "headers",
    "test_an_answer_that_was_lost_doubles_nothing": "idempotence",
    "test_the_first_offset_of_a_time_is_found": "seek by time",
    "test_a_group_shares_partitions_and_goes_on_where_it_stopped": "groups",
    "test_a_subscription_from_before_the_topic_existed_is_served": "early subscription",
    "test_a_gap_at_the_end_is_passed": "gap at the end",
}
"""What each test of `test_behaviours.py` shows."""
