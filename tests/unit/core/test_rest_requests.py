from __future__ import annotations

import pytest

from kraal.core.rest_requests import retry_delay_s

REBALANCE = "Cannot complete request momentarily due to stale configuration"
CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
NO_LEADER = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
)
STALE = (
    "Cannot complete request momentarily due to stale configuration "
    "(typically caused by a concurrent config change)"
)
FENCED = "Failed to complete zombie fencing because a new set of task configs was generated"
EXPECTED = "Request cannot be completed because a rebalance is expected"


@pytest.mark.parametrize(
    ("method", "status", "text", "retry_after", "pause_s"),
    [
        pytest.param("PUT", 409, REBALANCE, None, 0.5, id="Java in a rebalance"),
        pytest.param("PUT", 409, REBALANCE, "1", 1.0, id="Kraal in a rebalance"),
        pytest.param("POST", 409, CONFLICT, None, 0.5, id="too many hops"),
        pytest.param("POST", 409, NO_LEADER, None, 0.5, id="no leader"),
        pytest.param("PATCH", 409, STALE, None, 0.5, id="a config that has just changed"),
        pytest.param("POST", 409, "Connector a already exists", None, None, id="existing connector"),
        pytest.param(
            "POST",
            409,
            "Connector rebalance already exists",
            None,
            None,
            id="existing connector named rebalance",
        ),
        pytest.param("PUT", 409, FENCED, None, None, id="replaced task configs"),
        pytest.param("PUT", 503, "The worker is too busy", "2", 2.0, id="busy"),
        pytest.param("PUT", 503, "Service Unavailable", None, None, id="unavailable without Retry-After"),
        pytest.param("GET", 500, EXPECTED, None, 0.5, id="GET of Java in a rebalance"),
        pytest.param("PUT", 500, EXPECTED, None, None, id="PUT with an unknown result"),
        pytest.param("GET", 500, "no", None, None, id="another error"),
        pytest.param("PUT", 409, REBALANCE, "600", 10.0, id="at most 10 s"),
        pytest.param("PUT", 409, REBALANCE, "0", 0.1, id="at least 0.1 s"),
        pytest.param("PUT", 409, REBALANCE, "Wed, 21 Oct 2026 07:28:00 GMT", 0.5, id="a date"),
    ],
)
def test_retriable_response_has_delay(
    method: str, status: int, text: str, retry_after: str | None, pause_s: float | None
) -> None:
    assert retry_delay_s(method, status, text, retry_after) == pause_s
