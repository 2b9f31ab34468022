"""A small client of Connect's REST API; the same for Java's worker and ours."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import httpx2

from scripts.harness.processes import ScriptFailed

OK, CREATED, NOT_FOUND, CONFLICT = 200, 201, 404, 409
RETRY_INTERVAL_S = 0.005


class Rest:
    """The REST API of one worker, over one kept connection."""

    def __init__(self, port: int, *, patience_s: float = 0.0) -> None:
        """Make a client for the worker on 127.0.0.1:`port`; nothing is sent yet.

        A 409 is asked again for `patience_s`: so a cluster answers while it rebalances.
        """
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._patience_s = patience_s
        # No proxy of the environment stands between this machine and itself.
        self._client = httpx2.Client(base_url=self.url, timeout=120.0, trust_env=False)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    @property
    def worker_id(self) -> str:
        """What statuses call this worker."""
        return f"127.0.0.1:{self.port}"

    def is_healthy(self) -> bool:
        """Whether `GET /health` gives 200 now: a distributed worker has read its topics and is in its group."""
        try:
            return self._client.get("/health", timeout=15.0).status_code == OK
        except httpx2.HTTPError:
            return False

    def connectors(self) -> list[str] | None:
        """GET /connectors; None while that is refused or no one listens."""
        try:
            answer = self._client.get("/connectors")
        except httpx2.HTTPError:
            return None
        return list(answer.json()) if answer.status_code == OK else None

    def answers(self) -> bool:
        """Whether `GET /` gives 200 now."""
        try:
            return self._client.get("/", timeout=5.0).status_code == OK
        except httpx2.HTTPError:
            return False

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """POST /connectors."""
        self._ask("POST", "/connectors", json={"name": name, "config": dict(config)})

    def delete(self, name: str) -> None:
        """DELETE /connectors/{name}."""
        self._ask("DELETE", f"/connectors/{name}")

    def restart(self, name: str) -> None:
        """POST /connectors/{name}/restart?includeTasks=true."""
        self._ask("POST", f"/connectors/{name}/restart?includeTasks=true")

    def put(self, name: str, action: str) -> None:
        """PUT /connectors/{name}/{action}: `pause`, `resume` or `stop`."""
        self._ask("PUT", f"/connectors/{name}/{action}")

    def statuses(self) -> dict[str, dict[str, Any]]:
        """GET /connectors?expand=status; shape: connector -> ConnectorStateInfo."""
        answer = self._ask("GET", "/connectors?expand=status").json()
        return {name: entry["status"] for name, entry in answer.items()}

    def status(self, name: str) -> dict[str, Any] | None:
        """GET /connectors/{name}/status; None while there is none."""
        answer = self._client.get(f"/connectors/{name}/status")
        return None if answer.status_code == NOT_FOUND else dict(answer.json())

    def metrics(self, name: str) -> list[float]:
        """GET /metrics; return the values of one metric, one for each series, NaN left out. Kraal only."""
        lines = self._ask("GET", "/metrics").text.splitlines()
        starts = (f"{name}{{", f"{name} ")
        values = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(starts)]
        return [value for value in values if not math.isnan(value)]

    def is_running(self, name: str) -> bool:
        """Whether the connector and at least one task run, and none does not. Raises when one has failed."""
        status = self.status(name)
        return status is not None and all_running(status)

    def _ask(self, method: str, path: str, json: object = None) -> httpx2.Response:
        deadline = time.monotonic() + self._patience_s
        answer = self._client.request(method, path, json=json)
        while answer.status_code == CONFLICT and time.monotonic() < deadline:
            time.sleep(RETRY_INTERVAL_S)
            answer = self._client.request(method, path, json=json)
        if answer.is_error:
            raise ScriptFailed(f"{method} {path} was answered by {answer.status_code}: {answer.text[:300]}")
        return answer


def all_running(status: Mapping[str, Any]) -> bool:
    """Whether a ConnectorStateInfo says RUNNING throughout. Raises ScriptFailed when it says FAILED."""
    parts = [status["connector"], *status["tasks"]]
    for part in parts:
        if part["state"] == "FAILED":
            reason = str(part.get("trace", "no trace")).strip().splitlines()[0]
            raise ScriptFailed(f"{status['name']} has failed: {reason}")
    return len(parts) > 1 and all(part["state"] == "RUNNING" for part in parts)
