from __future__ import annotations

import pytest

from kraal.core.rest_requests import retry_delay_s

STALE_CONFIG = "Cannot complete request momentarily due to stale configuration"
CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
NO_LEADER = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
)
CONCURRENT_CONFIG_CHANGE = (
    "Cannot complete request momentarily due to stale configuration "
    "(typically caused by a concurrent config change)"
)
FENCING_FAILED = "Failed to complete zombie fencing because a new set of task configs was generated"
REBALANCE_EXPECTED = "Request cannot be completed because a rebalance is expected"


@pytest.mark.parametrize(
    ("method", "status", "text", "retry_after", "pause_s"),
    [
        pytest.param("PUT", 409, STALE_CONFIG, None, 0.5, id="Java worker with a stale config"),
        pytest.param("PUT", 409, STALE_CONFIG, "1", 1.0, id="Kraal worker with a stale config"),
        pytest.param("POST", 409, CONFLICT, None, 0.5, id="too many hops"),
        pytest.param("POST", 409, NO_LEADER, None, 0.5, id="no leader"),
        pytest.param("PATCH", 409, CONCURRENT_CONFIG_CHANGE, None, 0.5, id="concurrent config change"),
        pytest.param("POST", 409, "Connector a already exists", None, None, id="existing connector"),
        pytest.param(
            "POST",
            409,
            "Connector rebalance already exists",
            None,
            None,
            id="existing connector named rebalance",
        ),
        pytest.param("PUT", 409, FENCING_FAILED, None, None, id="replaced task configs"),
        pytest.param("PUT", 503, "The worker is too busy", "2", 2.0, id="busy"),
        pytest.param("PUT", 503, "Service Unavailable", None, None, id="unavailable without Retry-After"),
        pytest.param("GET", 500, REBALANCE_EXPECTED, None, 0.5, id="GET before a rebalance of Java workers"),
        pytest.param("PUT", 500, REBALANCE_EXPECTED, None, None, id="PUT with an unknown result"),
        pytest.param("GET", 500, "no", None, None, id="another error"),
        pytest.param("PUT", 409, STALE_CONFIG, "600", 10.0, id="at most 10 s"),
        pytest.param("PUT", 409, STALE_CONFIG, "0", 0.1, id="at least 0.1 s"),
        pytest.param(
            "PUT", 409, STALE_CONFIG, "Wed, 21 Oct 2026 07:28:00 GMT", 0.5, id="Retry-After is a date"
        ),
    ],
)
def test_only_retriable_responses_have_a_delay(
    method: str, status: int, text: str, retry_after: str | None, pause_s: float | None
) -> None:
    assert retry_delay_s(method, status, text, retry_after) == pause_s
