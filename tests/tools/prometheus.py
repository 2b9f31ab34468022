"""Runs the Prometheus server and `promtool`, which are installed or unpacked from Debian's package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import httpx2

from kraal.broker.broker import free_port
from scripts.harness.processes import ScriptFailed, wait_until
from tests.tools.debian import unpack

VARIABLES: Final = {"promtool": "KRAAL_PROMTOOL", "prometheus": "KRAAL_PROMETHEUS"}
ALTERNATIVES: Final = "Install Prometheus, or set KRAAL_PROMTOOL and KRAAL_PROMETHEUS to its programs."
START_TIMEOUT_S: Final = 30.0
TOOL_TIMEOUT_S: Final = 30.0


def program(name: str) -> Path:
    """Return the path of `promtool` or `prometheus`. Missing programs are downloaded. Raises ScriptFailed."""
    if configured_path := os.environ.get(VARIABLES[name]):
        if path := shutil.which(configured_path):
            return Path(path)
        raise ScriptFailed(f"Invalid {VARIABLES[name]} '{configured_path}'; expected the path of {name}.")
    if path := shutil.which(name):
        return Path(path)
    return unpack("prometheus", "prometheus", alternatives=ALTERNATIVES) / "usr" / "bin" / name


def promtool(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run promtool with `text` as standard input."""
    return subprocess.run(
        [str(program("promtool")), *arguments],
        input=text, capture_output=True, text=True, check=False, timeout=TOOL_TIMEOUT_S,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus server."""

    client: httpx2.Client
    log: Path

    def query(self, expression: str) -> list[Mapping[str, Any]]:
        """Return the result of an instant query. Raises ScriptFailed if the server rejects the expression."""
        result: list[Mapping[str, Any]] = self._query_api("query", {"query": expression})["result"]
        return result

    def alerts(self) -> dict[str, str]:
        """Return the states of pending and firing alerts by name."""
        return {
            alert["labels"]["alertname"]: alert["state"] for alert in self._query_api("alerts", {})["alerts"]
        }

    def rule_problems(self) -> dict[str, str]:
        """Return the errors of rules whose evaluation failed, by name."""
        groups = self._query_api("rules", {})["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return {rule["name"]: rule["lastError"] for rule in rules if rule.get("lastError")}

    def _query_api(self, path: str, parameters: Mapping[str, str]) -> Mapping[str, Any]:
        response = self.client.get(f"/api/v1/{path}", params=parameters).json()
        if response["status"] != "success":
            raise ScriptFailed(f"Prometheus rejected {path} {dict(parameters)}: {response['error']}")
        data: Mapping[str, Any] = response["data"]
        return data


@contextmanager
def prometheus(config: Path) -> Iterator[Prometheus]:
    """Run a server on loopback, and remove its data at the end of the block. Raises ScriptFailed."""
    home, port = Path(tempfile.mkdtemp(prefix="kraal-prometheus-")), free_port()
    command: Sequence[str] = (
        str(program("prometheus")), f"--config.file={config}", f"--storage.tsdb.path={home / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=1h",
    )  # fmt: skip
    log = home / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        with httpx2.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=START_TIMEOUT_S, trust_env=False
        ) as client:

            def is_up() -> bool:
                if process.poll() is not None:
                    raise ScriptFailed(f"Prometheus exited during startup: {log.read_text(errors='replace')}")
                try:
                    return client.get("/-/ready").status_code == httpx2.codes.OK
                except httpx2.TransportError:
                    return False

            wait_until("Prometheus was ready", is_up, timeout_s=START_TIMEOUT_S)
            yield Prometheus(client, log)
    finally:
        process.kill()
        process.wait(START_TIMEOUT_S)
        shutil.rmtree(home)


if __name__ == "__main__":
    try:
        click.echo(program("promtool"))
    except ScriptFailed as failure:
        sys.exit(str(failure))
