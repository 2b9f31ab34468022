"""Captures Connect's error responses and responses to OPTIONS for `tests/golden/rest`.

    python -m scripts.harness.capture_rest

Sends the requests in `errors.jsonl` and `options.jsonl` of `rest/VERSION` to a distributed worker without connectors,
and replaces the responses in these files. For a new version, first copy the files of the previous version. Takes half a
minute. Requires the jars of `broker` and `connect`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import httpx2

from kraal.broker.broker import Broker, free_port
from scripts.harness.capture_config_golden import GOLDEN, GROUP, start
from scripts.harness.java_connect import CURRENT

HEADERS = ("Content-Type", "Allow", "Content-Length")


def send_request(client: httpx2.Client, request: dict[str, Any]) -> dict[str, Any]:
    """Send a request; return the worker's response."""
    response = client.request(
        request["method"], request["path"], headers=request["headers"], content=request["body"]
    )
    headers = {name: response.headers[name] for name in HEADERS if name in response.headers}
    return {"status": response.status_code, "headers": headers, "body": response.text}


def main() -> None:
    """Capture both files."""
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        broker = Broker(Path(name) / "kafka", free_port())
        broker.start()
        try:
            worker = start(broker.bootstrap, Path(name) / "worker", "distributed", "All", GROUP)
            try:
                with httpx2.Client(base_url=worker.rest.url, timeout=60.0, trust_env=False) as client:
                    client.headers.clear()
                    for family in ("errors", "options"):
                        path = GOLDEN / "rest" / CURRENT / f"{family}.jsonl"
                        cases = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
                        lines = [
                            json.dumps(
                                case | {"answer": send_request(client, case["request"])}, ensure_ascii=False
                            )
                            for case in cases
                        ]
                        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            finally:
                worker.stop()
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
