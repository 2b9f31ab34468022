"""Tests for checks of a running worker over REST: Kraal's own API at a socket, and scripted Java responses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from kraal.cli.main import main
from kraal.client.target import parse_target
from kraal.doctor import connectors, running
from kraal.doctor.finding import Finding, Level
from kraal.doctor.running import check_running
from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.workers.connect import Connect, ScriptedResponse, connect

CONNECTORS_PATH = "/connectors?expand=status&expand=info&expand=progress&traces=causes"
W1, W2 = "w1:8083", "w2:8083"
JAVA_RESPONSE = {"version": "4.3.0", "commit": "abc", "kafka_cluster_id": "c"}


@pytest.fixture
def worker() -> Iterator[Connect]:
    with connect() as worker:
        yield worker


def check_worker(url: str) -> list[Finding]:
    return [*check_running(parse_target(url, timeout_s=5, retry_s=0))]


def levels(findings: list[Finding]) -> dict[str, Level]:
    return {finding.id: finding.level for finding in findings}


def single_finding(findings: Iterator[Finding] | list[Finding], check: str) -> Finding:
    [finding] = [finding for finding in findings if finding.id == check]
    return finding


def test_healthy_kraal_worker_receives_only_gets(worker: Connect) -> None:
    worker.create("orders", {"connector.class": FAKE_SOURCE})
    findings = check_worker(worker.url)
    assert levels(findings) == {
        "worker.reachable": Level.WARNING,  # this worker has no Kafka
        "worker.health": Level.OK,
        "clock.worker": Level.OK,
        "connectors.failed": Level.OK,
        "connectors.stalled": Level.OK,
        "connectors.plugins": Level.OK,
        "workers.reachable": Level.HINT,  # the worker id is not an address
        "workers.versions": Level.OK,
    }
    assert "Kraal" in single_finding(findings, "worker.reachable").what
    assert {request.method for request in worker.received_requests} == {"GET"}


def test_failed_components_are_named_with_causes(worker: Connect) -> None:
    cause = "Java plugins are not available: exit code 1, after: Unrecognized VM option"
    down = [{"part": "plugins-jvm", "down_ms": 90_000, "why": cause}]
    worker.script(
        "GET",
        "/health",
        ScriptedResponse(200, {"status": "healthy", "message": "Worker is ready.", "down": down}),
    )
    finding = single_finding(check_worker(worker.url), "worker.parts")
    assert (finding.level, finding.what) == (Level.WARNING, f"The worker's plugins-jvm is down: {cause}")


def test_unreachable_worker_is_an_error() -> None:
    [finding] = check_worker("http://127.0.0.1:1")
    assert (finding.id, finding.level, bool(finding.fix)) == ("worker.reachable", Level.ERROR, True)
    assert "Cannot connect to http://127.0.0.1:1" in finding.what


def test_java_worker_is_checked(worker: Connect) -> None:
    worker.script("GET", "/", ScriptedResponse(200, JAVA_RESPONSE, {"Server": "Jetty(12.0.22)"}))
    worker.refuse("GET", "/health", 404, "HTTP 404 Not Found")
    worker.script("GET", CONNECTORS_PATH, ScriptedResponse(200, {"a": connector(task(0))}))
    findings = check_worker(worker.url)
    assert (
        single_finding(findings, "worker.reachable").what
        == f"{worker.url} responds (Connect 4.3.0), on Kafka cluster c"
    )
    assert single_finding(findings, "worker.health").level is Level.SKIPPED
    assert single_finding(findings, "connectors.stalled").what == "Java workers do not report stalled tasks"


@pytest.mark.parametrize("status", [500, 503])
def test_unhealthy_worker_reports_the_cause(worker: Connect, status: int) -> None:
    worker.script(
        "GET",
        "/health",
        ScriptedResponse(status, {"status": "starting", "message": "Worker is still starting up."}),
    )
    finding = single_finding(check_worker(worker.url), "worker.health")
    assert (finding.level, "Worker is still starting up." in finding.what) == (Level.ERROR, True)


def test_other_workers_are_queried_without_credentials(
    worker: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "now_s", lambda: time.time() + 100)
    with connect() as other_worker:
        netloc = other_worker.url.removeprefix("http://")
        worker.script(
            "GET",
            CONNECTORS_PATH,
            ScriptedResponse(200, {"a": connector(task(0, netloc), worker="127.0.0.1:1")}),
        )
        other_worker.script("GET", "/", ScriptedResponse(200, JAVA_RESPONSE | {"version": "4.2.0"}))
        findings = check_worker(worker.url.replace("//", "//me:hunter2@"))
        assert [request.headers.get("authorization") for request in other_worker.received_requests] == [None]
    assert all("authorization" in request.headers for request in worker.received_requests)
    assert [finding.level for finding in findings if finding.id == "clock.worker"] == [Level.WARNING] * 2
    unreachable_finding = single_finding(findings, "workers.reachable")
    assert (unreachable_finding.level, "127.0.0.1:1" in unreachable_finding.what) == (Level.HINT, True)
    version_finding = single_finding(findings, "workers.versions")
    assert (version_finding.level, other_worker.url in version_finding.what) == (Level.WARNING, True)
    assert "1 more did not report a version" in version_finding.what


# -- connectors and tasks of a list response ------------------------------------------------------------------


def task(number: int, worker: str = W1, state: str = "RUNNING", trace: str | None = None) -> dict[str, Any]:
    return {"id": number, "worker_id": worker, "state": state} | ({"trace": trace} if trace else {})


def connector(
    *tasks: dict[str, Any], worker: str = W1, state: str = "RUNNING", **details: Any
) -> dict[str, Any]:
    """Return a connector as in the list response; `details` may contain `config`, `progress` and `trace`."""
    config = details.pop("config", {"connector.class": FAKE_SOURCE})
    status = {
        "connector": {"state": state, "worker_id": worker, "trace": details.pop("trace", None)},
        "tasks": [*tasks],
    }
    return {"status": status, "info": {"config": config}, **details}


def test_failures_have_root_causes_and_workers() -> None:
    trace = "org.example.Outer: no\n\tat a.b\nCaused by: java.io.IOException: disk full\n\tat c.d\n"
    connectors_by_name = {
        "my orders": connector(task(0), task(1, W2, "FAILED", trace), task(2, W1, "FAILED", "other")),
        "payments": connector(state="FAILED", trace="ConfigInvalid: no url"),
        "well": connector(task(0)),
    }
    task_finding, connector_finding = connectors.check_failed(connectors_by_name)
    assert (task_finding.level, connector_finding.level) == (Level.ERROR, Level.ERROR)
    assert task_finding.what == (
        "2 of 3 tasks of my orders have failed, 1 on w2:8083, 2 on w1:8083: java.io.IOException: disk full"
    )
    assert task_finding.fix == "Correct the cause, then: kraal restart 'my orders' --tasks --only-failed"
    assert connector_finding.what == "The connector payments has failed on w1:8083: ConfigInvalid: no url"


def test_stalled_tasks_are_reported() -> None:
    tasks = [
        {"id": 0, "worker_id": W1, "stalled": False},
        {"id": 1, "worker_id": W2, "stalled": True, "step_ms": 90_000},
    ]
    [finding] = connectors.check_stalled({"a": connector(progress={"tasks": tasks, "silent": []})})
    assert finding.level is Level.WARNING
    assert finding.what == "Task 1 of a on w2:8083 has made no progress for 90 s"


PLUGIN_LISTING = [
    {"class": "org.example.FileSourceConnector", "type": "source"},
    {"class": "org.example.JsonConverter", "type": "converter"},
    {"class": "org.example.Cast$Value", "type": "transformation"},
]


@pytest.mark.parametrize(
    ("config", "missing_plugin"),
    [
        ({"connector.class": "org.example.FileSourceConnector"}, ""),
        ({"connector.class": "FileSource", "value.converter": "Json"}, ""),
        ({"connector.class": "FileSource", "transforms.unused.type": "org.example.Gone"}, ""),
        ({"connector.class": "FileSource", "value.converter": "${env:CONVERTER}"}, ""),
        ({"connector.class": "org.example.Gone"}, "org.example.Gone"),
        ({"connector.class": "FileSource", "key.converter": "org.example.Avro"}, "org.example.Avro"),
        ({"connector.class": "FileSource", "predicates": "p", "predicates.p.type": "P"}, "P"),
    ],
)
def test_missing_plugins_of_connectors_are_reported(config: dict[str, str], missing_plugin: str) -> None:
    [finding] = connectors.check_plugins("http://w", {"a": connector(config=config)}, PLUGIN_LISTING)
    assert finding.level is (Level.WARNING if missing_plugin else Level.OK)
    assert (
        not missing_plugin
        or finding.what == f"http://w lacks the plugin {missing_plugin}, which is needed by a"
    )


# -- the command ---------------------------------------------------------------------------------------------


def test_only_the_running_worker_is_checked_without_a_file(worker: Connect) -> None:
    worker.create("orders", {"connector.class": FAKE_SOURCE})
    worker.fail("orders", 0, "ValueError: no such row")
    result = CliRunner().invoke(main, ["doctor", "--url", worker.url, "-o", "json"])
    output = json.loads(result.stdout)
    assert result.exit_code == 1
    assert {finding["area"] for finding in output} == {"worker", "workers", "connectors", "clock"}
    [error_finding] = [finding for finding in output if finding["level"] == "error"]
    assert "ValueError: no such row" in error_finding["what"]
