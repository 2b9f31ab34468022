"""A worker runs from the files of a rendered pod, and its probe and the Job of connectors reach it."""

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

pytestmark = [pytest.mark.ci, pytest.mark.timeout(1800)]  # the first one may build helm

RUN = "from kraal.cli.main import main; main()"
UP_S = 60.0
PROBE_S = 20.0


@dataclass(frozen=True)
class Played:
    """A pod whose worker runs on this machine."""

    pod: Pod
    process: subprocess.Popen[bytes]
    log: Path

    def probe(self) -> subprocess.CompletedProcess[str]:
        """Run the probe of the worker's container."""
        command = self.pod.rendered.worker["readinessProbe"]["exec"]["command"]
        return subprocess.run(
            [self.pod.here(each) for each in command],
            capture_output=True, text=True, check=False, timeout=PROBE_S,
        )  # fmt: skip

    def is_ready(self) -> bool:
        """Whether the probe succeeds; fails if the worker has ended."""
        assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
        return self.probe().returncode == 0


@pytest.fixture
def played(kafka: Broker, tmp_path: Path) -> Iterator[Played]:
    """A worker with HTTPS and passwords that starts."""
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
    give_secrets(pod)
    log = tmp_path / "log"
    with log.open("wb") as out:
        command = [sys.executable, "-c", RUN, pod.rendered.worker["args"][0], str(pod.start())]
        process = subprocess.Popen(command, env=environment({}), stderr=out, stdout=out, cwd=tmp_path)
    yield Played(pod, process, log)
    process.kill()
    process.wait(PROBE_S)


def give_secrets(pod: Pod) -> None:
    authority = make_authority()
    pod.write("/etc/kraal/ca/ca.crt", authority.pem)
    pod.write("/etc/kraal/tls/password", PASSWORD)
    authority.vouch_for("kraal", address="127.0.0.1").key_store(pod.here_path("/etc/kraal/tls/keystore.p12"))
    authority.trust_store(pod.here_path("/etc/kraal/tls/truststore.p12"))
    pod.write("/etc/kraal/users/users.properties", "probe=good password\n")
    pod.write("/etc/kraal/client/username", "probe")
    pod.write("/etc/kraal/client/password", "good password")


def environment(more: dict[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def apply(played: Played) -> subprocess.CompletedProcess[str]:
    """Run what the container of the Job runs, with the worker's address on this machine."""
    pod = played.pod
    [container] = pod.rendered.one("Job")["spec"]["template"]["spec"]["containers"]
    for name, text in pod.rendered.one("ConfigMap", "-connectors")["data"].items():
        pod.write(f"/etc/kraal/connectors/{name}", text)
    given = {each["name"]: value(pod, each) for each in container["env"]}
    port = pod.rendered.worker["ports"][0]["containerPort"]
    assert given["KRAAL_URL"] == f"https://r-kraal.{NAMESPACE}.svc.cluster.local:{port}"
    command = [sys.executable, "-c", RUN, *map(pod.here, container["args"])]
    return subprocess.run(
        command, env=environment({**given, "KRAAL_URL": f"https://127.0.0.1:{port}"}),
        capture_output=True, text=True, check=False, timeout=UP_S,
    )  # fmt: skip


def value(pod: Pod, variable: Object) -> str:
    """Return the value of an environment variable: a text, or a key of the client's Secret."""
    if "value" in variable:
        return pod.here(variable["value"])
    reference = variable["valueFrom"]["secretKeyRef"]
    assert reference["name"] == "client"
    return pod.here_path(f"/etc/kraal/client/{reference['key']}").read_text(encoding="utf-8")


def test_a_worker_starts_gets_its_connectors_and_stops_in_time(played: Played) -> None:
    assert "Connection refused" in played.probe().stderr
    wait_until("the worker is ready", played.is_ready, timeout_s=UP_S)
    done = apply(played)
    assert (done.returncode, done.stdout.split("\n")[0]) == (0, "lines created"), done.stdout + done.stderr
    data = played.pod.here_path("/var/lib/kraal/data")
    assert len(list(data.rglob("kraal-*"))) == 1
    played.pod.write("/etc/kraal/client/password", "bad password")
    assert ": 401 " in played.probe().stderr
    played.process.send_signal(signal.SIGTERM)
    spec = played.pod.rendered.one("StatefulSet")["spec"]["template"]["spec"]
    assert played.process.wait(spec["terminationGracePeriodSeconds"]) == 0
    assert list(data.rglob("kraal-*")) == []
