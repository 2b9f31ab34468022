"""Tests that a worker runs with the files of a simulated pod, and that its probe and the connector Job reach it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kraal.broker.broker import Broker, free_port
from scripts.harness.processes import wait_until
from tests.fakes.kafka.certificates import PASSWORD, make_authority
from tests.integration.deploy.chart import NAMESPACE, ROOT, Object, Pod, render

pytestmark = [pytest.mark.ci, pytest.mark.timeout(1800)]  # the first test may build helm

RUN_CLI = "from kraal.cli.main import main; main()"
START_TIMEOUT_S = 60.0
PROBE_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class SimulatedPod:
    """A simulated pod whose worker runs on this machine."""

    pod: Pod
    process: subprocess.Popen[bytes]
    log: Path

    def probe(self) -> subprocess.CompletedProcess[str]:
        """Run the readiness probe of the worker's container."""
        command = self.pod.chart.worker["readinessProbe"]["exec"]["command"]
        return subprocess.run(
            [self.pod.localize(argument) for argument in command],
            capture_output=True, text=True, check=False, timeout=PROBE_TIMEOUT_S,
        )  # fmt: skip

    def is_ready(self) -> bool:
        """Return whether the readiness probe succeeds. Fails the test if the worker has exited."""
        assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
        try:
            return self.probe().returncode == 0
        except subprocess.TimeoutExpired:  # the worker accepts connections before it responds
            return False


@pytest.fixture
def simulated_pod(kafka: Broker, tmp_path: Path) -> Iterator[SimulatedPod]:
    """Run a simulated pod whose worker requires HTTPS and basic authentication."""
    group = f"chart-{uuid.uuid4().hex[:8]}"
    source = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines"), "topic": group}
    values = {
        "bootstrapServers": kafka.bootstrap,
        "groupId": group,
        "config": {f"{name}.storage.replication.factor": 1 for name in ("config", "offset", "status")},
        "rest": {
            "port": free_port(),
            "tls": {"secretName": "tls", "passwordSecret": {"name": "tls"}},
            "auth": {"usersSecret": "users", "clientSecret": "client"},
        },
        "connectors": {"lines": {"config": source}},
    }
    pod = Pod(render(values), 0, tmp_path)
    write_secrets(pod)
    log = tmp_path / "log"
    with log.open("wb") as out:
        command = [sys.executable, "-c", RUN_CLI, pod.chart.worker["args"][0], str(pod.start())]
        process = subprocess.Popen(command, env=environment({}), stderr=out, stdout=out, cwd=tmp_path)
    yield SimulatedPod(pod, process, log)
    process.kill()
    process.wait(PROBE_TIMEOUT_S)


def write_secrets(pod: Pod) -> None:
    authority = make_authority()
    pod.write("/etc/kraal/ca/ca.crt", authority.pem)
    pod.write("/etc/kraal/tls/password", PASSWORD)
    authority.issue_certificate("kraal", address="127.0.0.1").key_store(
        pod.local_path("/etc/kraal/tls/keystore.p12")
    )
    authority.trust_store(pod.local_path("/etc/kraal/tls/truststore.p12"))
    pod.write("/etc/kraal/users/users.properties", "probe=good password\n")
    pod.write("/etc/kraal/client/username", "probe")
    pod.write("/etc/kraal/client/password", "good password")


def environment(extra: dict[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **extra}


def run_apply_job(simulated_pod: SimulatedPod) -> subprocess.CompletedProcess[str]:
    """Run the command of the Job's container with the worker's local address."""
    pod = simulated_pod.pod
    [container] = pod.chart.one("Job")["spec"]["template"]["spec"]["containers"]
    for name, text in pod.chart.one("ConfigMap", "-connectors")["data"].items():
        pod.write(f"/etc/kraal/connectors/{name}", text)
    variables = {variable["name"]: read_variable(pod, variable) for variable in container["env"]}
    port = pod.chart.worker["ports"][0]["containerPort"]
    assert variables["KRAAL_URL"] == f"https://r-kraal.{NAMESPACE}.svc.cluster.local:{port}"
    command = [sys.executable, "-c", RUN_CLI, *map(pod.localize, container["args"])]
    return subprocess.run(
        command, env=environment({**variables, "KRAAL_URL": f"https://127.0.0.1:{port}"}),
        capture_output=True, text=True, check=False, timeout=START_TIMEOUT_S,
    )  # fmt: skip


def read_variable(pod: Pod, variable: Object) -> str:
    """Return the value of an environment variable, which is a literal or a key of the client's Secret."""
    if "value" in variable:
        return pod.localize(variable["value"])
    reference = variable["valueFrom"]["secretKeyRef"]
    assert reference["name"] == "client"
    return pod.local_path(f"/etc/kraal/client/{reference['key']}").read_text(encoding="utf-8")


def test_chart_worker_applies_connectors_and_stops_within_the_grace_period(
    simulated_pod: SimulatedPod,
) -> None:
    assert "Connection refused" in simulated_pod.probe().stderr
    wait_until("the worker was ready", simulated_pod.is_ready, timeout_s=START_TIMEOUT_S)
    result = run_apply_job(simulated_pod)
    assert (result.returncode, result.stdout.split("\n")[0]) == (0, "lines created"), (
        result.stdout + result.stderr
    )
    data = simulated_pod.pod.local_path("/var/lib/kraal/data")
    assert len(list(data.rglob("kraal-*"))) == 1
    simulated_pod.pod.write("/etc/kraal/client/password", "bad password")
    assert ": 401 " in simulated_pod.probe().stderr
    simulated_pod.process.send_signal(signal.SIGTERM)
    spec = simulated_pod.pod.chart.one("StatefulSet")["spec"]["template"]["spec"]
    assert simulated_pod.process.wait(spec["terminationGracePeriodSeconds"]) == 0
    assert list(data.rglob("kraal-*")) == []
