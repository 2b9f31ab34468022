"""A small client of Connect's REST API, for Java and Kraal workers."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import httpx2

from scripts.harness.processes import ScriptFailed

OK, CREATED, NOT_FOUND, CONFLICT = 200, 201, 404, 409
RETRY_INTERVAL_S = 0.005
PROOF_POLL_S = 0.2


class Rest:
    """The REST API of one worker, over one persistent connection."""

    def __init__(self, port: int, *, retry_timeout_s: float = 0.0) -> None:
        """Create a client of the worker on 127.0.0.1:`port` without sending a request.

        Requests that return 409, as during a rebalance, are retried for up to `retry_timeout_s`.
        """
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._retry_timeout_s = retry_timeout_s
        # The environment's proxies are ignored for loopback connections.
        self._client = httpx2.Client(base_url=self.url, timeout=120.0, trust_env=False)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    @property
    def worker_id(self) -> str:
        """The worker id in statuses."""
        return f"127.0.0.1:{self.port}"

    def is_healthy(self) -> bool:
        """Return whether `GET /health` returns 200: the worker has read its topics and joined its group."""
        try:
            return self._client.get("/health", timeout=15.0).status_code == OK
        except httpx2.HTTPError:
            return False

    def connectors(self) -> list[str] | None:
        """GET /connectors; None if the connection fails or the status is not 200."""
        try:
            response = self._client.get("/connectors")
        except httpx2.HTTPError:
            return None
        return list(response.json()) if response.status_code == OK else None

    def is_up(self) -> bool:
        """Return whether `GET /` returns 200."""
        try:
            return self._client.get("/", timeout=5.0).status_code == OK
        except httpx2.HTTPError:
            return False

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """POST /connectors."""
        self._request("POST", "/connectors", json={"name": name, "config": dict(config)})

    def delete(self, name: str) -> None:
        """DELETE /connectors/{name}."""
        self._request("DELETE", f"/connectors/{name}")

    def restart(self, name: str) -> None:
        """POST /connectors/{name}/restart?includeTasks=true."""
        self._request("POST", f"/connectors/{name}/restart?includeTasks=true")

    def put(self, name: str, action: str) -> None:
        """PUT /connectors/{name}/{action}: `pause`, `resume` or `stop`."""
        self._request("PUT", f"/connectors/{name}/{action}")

    def statuses(self) -> dict[str, dict[str, Any]]:
        """GET /connectors?expand=status; shape: connector -> ConnectorStateInfo."""
        response = self._request("GET", "/connectors?expand=status").json()
        return {name: entry["status"] for name, entry in response.items()}

    def status(self, name: str) -> dict[str, Any] | None:
        """GET /connectors/{name}/status; None for a 404."""
        response = self._client.get(f"/connectors/{name}/status")
        return None if response.status_code == NOT_FOUND else dict(response.json())

    def metrics(self, name: str) -> list[float]:
        """GET /metrics; return the values of all series of one metric except NaN. Kraal only."""
        lines = self._request("GET", "/metrics").text.splitlines()
        prefixes = (f"{name}{{", f"{name} ")
        values = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(prefixes)]
        return [value for value in values if not math.isnan(value)]

    def is_running(self, name: str) -> bool:
        """Return whether a connector and its tasks (at least one) are RUNNING. Raises ScriptFailed if any is FAILED."""
        status = self.status(name)
        return status is not None and is_fully_running(status)

    def committed_offsets(self, name: str) -> int:
        """Return the sum of the offsets that a sink has committed."""
        offsets = self._request("GET", f"/connectors/{name}/offsets").json()["offsets"]
        return sum(int(entry["offset"]["kafka_offset"]) for entry in offsets)

    def prove(self, name: str) -> dict[str, Any]:
        """Run the proof of a sink; return its state, which contains the result."""
        state: dict[str, Any] = self._request("POST", f"/connectors/{name}/proof").json()
        while state["state"] == "RUNNING":
            time.sleep(PROOF_POLL_S)
            state = self._request("GET", f"/connectors/{name}/proof").json()
        return state

    def _request(self, method: str, path: str, json: object = None) -> httpx2.Response:
        deadline = time.monotonic() + self._retry_timeout_s
        response = self._client.request(method, path, json=json)
        while response.status_code == CONFLICT and time.monotonic() < deadline:
            time.sleep(RETRY_INTERVAL_S)
            response = self._client.request(method, path, json=json)
        if response.is_error:
            raise ScriptFailed(
                f"{method} {path} failed with status {response.status_code}: {response.text[:300]}"
            )
        return response


def is_fully_running(status: Mapping[str, Any]) -> bool:
    """Return whether a connector and its tasks (at least one) are RUNNING.

    Raises ScriptFailed if the connector or a task is FAILED.
    """
    parts = [status["connector"], *status["tasks"]]
    for part in parts:
        if part["state"] == "FAILED":
            lines = str(part.get("trace", "no trace")).strip().splitlines()
            causes = [line for line in lines if line.startswith("Caused by: ")]
            raise ScriptFailed(f"{status['name']} has failed: {' '.join([lines[0], *causes[-1:]])}")
    return len(parts) > 1 and all(part["state"] == "RUNNING" for part in parts)
