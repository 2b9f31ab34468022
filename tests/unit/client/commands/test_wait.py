"""Tests for `kraal wait`."""

from __future__ import annotations

from functools import partial

import pytest

from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
from tests.fakes.workers.connect import Connect, ScriptedResponse
from tests.unit.client.commands.conftest import TRACE
from tests.unit.client.conftest import Kraal


@pytest.mark.usefixtures("worker_with_orders")
def test_wait_returns_when_all_connectors_run(kraal: Kraal) -> None:
    assert kraal.out("wait", "orders", "other") == "orders is RUNNING\nother is RUNNING\n"
    assert kraal.out("wait", "--all", "--for", "running") == "orders is RUNNING\nother is RUNNING\n"


def test_running_state_must_persist_for_two_seconds(kraal: Kraal, worker_with_orders: Connect) -> None:
    kraal.clock.meanwhile = [partial(worker_with_orders.fail, "orders", 0, TRACE)]
    line = kraal.error("wait", "orders")
    assert line == (
        "Error: orders failed: it is RUNNING, task 0 is FAILED, task 1 is RUNNING: java.io.IOException: disk full"
    )
    assert kraal.clock.time == pytest.approx(5.5, abs=0.6)


def test_wait_accepts_a_connector_that_is_created_later(kraal: Kraal, worker: Connect) -> None:
    kraal.clock.meanwhile = [
        lambda: None,
        partial(worker.create, "late", {"connector.class": FAKE_SOURCE}),
    ]
    assert kraal.out("wait", "late") == "late is RUNNING\n"
    assert kraal.clock.time == pytest.approx(3.0, abs=0.1)


@pytest.mark.usefixtures("worker_with_orders")
@pytest.mark.parametrize(("command", "state"), [("pause", "PAUSED"), ("stop", "STOPPED")])
def test_wait_returns_immediately_in_the_target_state(kraal: Kraal, command: str, state: str) -> None:
    kraal.out(command, "orders")
    assert kraal.out("wait", "orders", "--for", state) == f"orders is {state}\n"
    assert kraal.clock.time == 0.0


@pytest.mark.usefixtures("worker_with_orders")
def test_timeout_reports_the_state_of_the_connector(kraal: Kraal) -> None:
    assert kraal.error("wait", "other", "--for", "PAUSED", "--timeout", "3") == (
        "Error: other is not PAUSED after 3 s: it is RUNNING, task 0 is RUNNING"
    )


def test_wait_returns_when_config_and_status_are_deleted(kraal: Kraal, worker_with_orders: Connect) -> None:
    no_status = ScriptedResponse(404, {"error_code": 404, "message": "No status found for connector orders"})
    status = ScriptedResponse(200, worker_with_orders.worker.status("orders"))
    worker_with_orders.script("GET", "/connectors/orders/status", status, status, no_status)
    config = ScriptedResponse(200, {"name": "orders"})
    not_found_response = ScriptedResponse(404, {"error_code": 404, "message": "Connector orders not found"})
    worker_with_orders.script("GET", "/connectors/orders", config, not_found_response)
    assert kraal.out("wait", "orders", "--for", "DELETED") == "orders is DELETED\n"
    assert kraal.clock.time == pytest.approx(1.5)  # three polls after the first
    assert worker_with_orders.requests("GET")[-1] == "GET /connectors/orders"


@pytest.mark.usefixtures("worker_with_orders")
def test_timeout_reports_an_undeleted_connector(kraal: Kraal) -> None:
    line = kraal.error("wait", "other", "--for", "DELETED", "--timeout", "1")
    assert line == "Error: other is not DELETED after 1 s: it is RUNNING, task 0 is RUNNING"


def sink_offsets(*lags: int | None) -> ScriptedResponse:
    entries = [
        {"partition": {"kafka_topic": "t", "kafka_partition": n}, "offset": {"kafka_offset": 5}, "lag": lag}
        for n, lag in enumerate(lags)
    ]
    return ScriptedResponse(200, {"offsets": entries})


@pytest.fixture
def worker_with_archive(worker: Connect) -> Connect:
    worker.create("archive", {"connector.class": FAKE_SINK, "topics": "orders"})
    return worker


LAG_PATH = "/connectors/archive/offsets?expand=lag"


def test_wait_returns_when_a_sink_has_no_lag(kraal: Kraal, worker_with_archive: Connect) -> None:
    worker_with_archive.script(
        "GET", LAG_PATH, sink_offsets(), sink_offsets(3, 0), sink_offsets(0, None), sink_offsets(0, 0)
    )
    assert kraal.out("wait", "archive", "--for", "no-lag") == "archive is without lag\n"
    assert kraal.clock.time == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("lags", "text"),
    [
        ((), "it has not committed an offset yet"),
        ((3, 0, 4), "it is 7 offsets behind in 2 of 3 partitions"),
        ((None,), "it is 0 offsets behind in 1 of 1 partitions"),
    ],
)
def test_timeout_reports_a_lagging_sink(
    kraal: Kraal, worker_with_archive: Connect, lags: tuple[int | None, ...], text: str
) -> None:
    worker_with_archive.script("GET", LAG_PATH, sink_offsets(*lags))
    assert kraal.error("wait", "archive", "--for", "no-lag", "--timeout", "1") == (
        f"Error: archive is not without lag after 1 s: {text}"
    )


def test_wait_fails_for_a_failed_sink(kraal: Kraal, worker_with_archive: Connect) -> None:
    worker_with_archive.fail("archive", 0, TRACE)
    line = kraal.error("wait", "archive", "--for", "no-lag")
    assert line.startswith("Error: archive failed: it is RUNNING, task 0 is FAILED: java.io.IOException")
    assert kraal.clock.time == pytest.approx(5.0)


def test_wait_fails_if_the_lag_is_not_reported(kraal: Kraal, worker_with_archive: Connect) -> None:
    worker_with_archive.create("orders", {"connector.class": FAKE_SOURCE})
    entry_without_lag = {
        "partition": {"kafka_topic": "t", "kafka_partition": 0},
        "offset": {"kafka_offset": 5},
    }
    worker_with_archive.script("GET", LAG_PATH, ScriptedResponse(200, {"offsets": [entry_without_lag]}))
    result = kraal("wait", "orders", "archive", "--for", "no-lag")
    assert (result.exit_code, kraal.clock.time) == (1, 0.0)
    assert result.stderr == (
        "Error: orders is a source connector, which has no lag\n"
        f"Error: {worker_with_archive.url} does not report the lag of archive; only Kraal's workers do\n"
    )


def test_wait_tolerates_a_worker_restart(kraal: Kraal, worker_with_orders: Connect) -> None:
    unavailable_response = ScriptedResponse(500, {"error_code": 500, "message": "not ready"})
    worker_with_orders.script(
        "GET",
        "/connectors/orders/status",
        unavailable_response,
        unavailable_response,
        ScriptedResponse(200, worker_with_orders.worker.status("orders")),
    )
    assert kraal.out("wait", "orders") == "orders is RUNNING\n"


def test_either_names_or_all_is_required(kraal: Kraal, worker_with_orders: Connect) -> None:
    for arguments in ([], ["orders", "--all"], ["orders", "--for", "GONE"]):
        assert kraal("wait", *arguments).exit_code == 2
    assert worker_with_orders.requests() == []
