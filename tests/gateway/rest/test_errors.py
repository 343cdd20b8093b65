"""Errors over HTTP and back."""

from __future__ import annotations

import pytest

from fairlead.model import errors as kinds
from fairlead.model.envelope import code_of, envelope, error_envelope, http_status, time_of_day, to_error
from fairlead.model.errors import FairleadError

PLAIN = [kinds.UnknownStream, kinds.AlreadyExists, kinds.NotAgreed, kinds.InvalidValue, kinds.Unreachable, kinds.Closed]


@pytest.mark.parametrize("kind", PLAIN)
def test_an_error_arrives_as_the_class_it_had(kind: type[FairleadError]) -> None:
    """Another server's error is handled like our own."""
    arrived = to_error(error_envelope(kind("why"), 0))
    assert type(arrived) is kind
    assert str(arrived) == "why"


def test_an_error_made_of_more_than_a_message_arrives_as_its_nearest_kind() -> None:
    """Its attributes did not travel, so it must not pretend to have them."""
    arrived = to_error(error_envelope(kinds.NotOwner("t", "/mapr/sf/ships"), 0))
    assert type(arrived) is kinds.NotAllowed
    assert "/mapr/sf/ships" in str(arrived)


@pytest.mark.parametrize(
    ("error", "status", "number"),
    [
        (kinds.UnknownTopic("t"), 404, 2),
        (kinds.AlreadyExists("t"), 409, 17),
        (kinds.InvalidName("t"), 400, 22),
        (kinds.NotAgreed("t"), 403, 13),
        (kinds.NotImplementedYet("-synchronous true"), 501, 38),
        (kinds.StorageFull("data", 1, 2), 507, 28),
        (kinds.Damaged("o", "cut"), 500, 5),
    ],
)
def test_each_kind_has_its_status_and_number(error: FairleadError, status: int, number: int) -> None:
    """HTTP status for programs, errno as in the original."""
    assert http_status(error) == status
    assert error_envelope(error, 0)["errors"][0]["id"] == number


def test_a_code_is_the_class_in_snake_case() -> None:
    """Messages of the link protocol carry it too."""
    assert code_of(kinds.StorageFull("data", 1, 2)) == "storage_full"


def test_an_envelope_has_the_fields_of_the_original() -> None:
    """timestamp, timeofday, status, total, data."""
    assert envelope([{"path": "/a"}], 1_700_000_000_123) == {
        "timestamp": 1_700_000_000_123,
        "timeofday": "2023-11-14 22:13:20.123 GMT+0000 PM",
        "status": "OK",
        "total": 1,
        "data": [{"path": "/a"}],
    }
    assert time_of_day(0) == "1970-01-01 00:00:00.000 GMT+0000 AM"


def test_an_answer_that_is_no_envelope_is_shown() -> None:
    """Something else listens at that address."""
    assert "hello" in str(to_error({"hello": 1}))
