"""Captures Connect's config definitions, plugin descriptions and validations for `tests/golden`.

    python -m scripts.harness.capture_config_golden [--all]

Writes `config/VERSION` with small Java programs: the definitions of Kafka's classes (`definitions.json`), and the
results of parsing values (`semantics.json`). Then completes the cases in the files `validate.jsonl` and
`plugins.jsonl` of `rest/VERSION`: adds `status` and `body` to the lines without them, or with `--all` to every
line. The first of these keys that a case has determines its request:

- `path`: GET of this path
- `request`: validation for `plugin`
- `plugin`: description of the plugin, with `query` if given

The optional keys `policy`, `group` and `mode` select the worker's override policy, group and mode.

Documentation is removed, because Kraal's differs. Takes a minute. Requires Java's compiler, and the jars of `broker`
and `connect`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from kraal.broker.broker import Broker, free_port
from kraal.jars.java import find_java
from scripts.harness.java_connect import CURRENT, class_path
from scripts.harness.processes import wait_until
from scripts.harness.workers import Worker, distributed, java_standalone

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"
DEFINITIONS = {
    "standalone": "org.apache.kafka.connect.runtime.standalone.StandaloneConfig",
    "distributed": "org.apache.kafka.connect.runtime.distributed.DistributedConfig",
    "producer": "org.apache.kafka.clients.producer.ProducerConfig",
    "consumer": "org.apache.kafka.clients.consumer.ConsumerConfig",
    "admin": "org.apache.kafka.clients.admin.AdminClientConfig",
}
GROUP = "golden-config"
START_TIMEOUT_S = 90.0

Case = dict[str, Any]


def run_program(program: str, *arguments: str) -> Any:
    """Run a Java program of this directory; return the JSON that it prints."""
    source = Path(__file__).parent / program
    command = [str(find_java()), "-cp", class_path(), str(source), *arguments]
    completed = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True, timeout=120)
    return json.loads(completed.stdout)


def write(path: Path, content: object) -> None:
    """Write a JSON file, creating its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def choose_worker(case: Case) -> tuple[str, str, str]:
    """Return the mode, the override policy and the group of the worker for a case."""
    mode = str(case.get("mode", "distributed"))
    return mode, str(case.get("policy", "All")), str(case.get("group", GROUP))


def send(client: httpx2.Client, case: Case) -> None:
    """Add a worker's response to a case."""
    if "path" in case:
        response = client.get(case["path"])
    elif "request" in case:
        path = f"/connector-plugins/{quote(case['plugin'], safe='')}/config/validate"
        response = client.put(path, json=case["request"])
    else:
        path = f"/connector-plugins/{quote(case['plugin'], safe='')}/config{case.get('query', '')}"
        response = client.get(path)
    case["status"] = response.status_code
    case["body"] = remove_documentation(response.json())


def remove_documentation(body: Any) -> Any:
    """Return a response body without Kafka's documentation."""
    if isinstance(body, list):
        return [remove_documentation(item) for item in body]
    if isinstance(body, dict):
        return {key: remove_documentation(value) for key, value in body.items() if key != "documentation"}
    return body


def start(bootstrap: str, directory: Path, mode: str, policy: str, group: str) -> Worker:
    """Start a worker and wait until it is healthy."""
    extra = {"connector.client.config.override.policy": policy}
    directory.mkdir(parents=True)
    if mode == "standalone":
        worker = java_standalone(bootstrap, directory, extra)
    else:
        worker = distributed("java", bootstrap, directory, group=group, extra=extra)
    wait_until(
        "the worker was healthy", worker.rest.is_healthy, timeout_s=START_TIMEOUT_S, program=worker.process
    )
    return worker


def send_all(cases: list[Case], directory: Path) -> None:
    """Send the request of each case to the worker that the case requires, one worker after the other."""
    broker = Broker(directory / "kafka", free_port())
    broker.start()
    try:
        for number, kind in enumerate(sorted({choose_worker(case) for case in cases})):
            worker = start(broker.bootstrap, directory / f"worker-{number}", *kind)
            try:
                with httpx2.Client(base_url=worker.rest.url, timeout=60.0, trust_env=False) as client:
                    for case in cases:
                        if choose_worker(case) == kind:
                            send(client, case)
            finally:
                worker.stop()
    finally:
        broker.stop()


def main(*, capture_all: bool) -> None:
    """Capture the missing responses, or all of them."""
    names = [f"{name}={owner}" for name, owner in DEFINITIONS.items()]
    write(GOLDEN / "config" / CURRENT / "definitions.json", run_program("ConfigDefinitions.java", *names))
    write(GOLDEN / "config" / CURRENT / "semantics.json", run_program("ConfigSemantics.java"))
    files = [GOLDEN / "rest" / CURRENT / f"{family}.jsonl" for family in ("plugins", "validate")]
    cases_by_file = {
        path: [json.loads(line) for line in path.read_text("utf-8").splitlines()] for path in files
    }
    pending_cases = [
        case for cases in cases_by_file.values() for case in cases if capture_all or "body" not in case
    ]
    if not pending_cases:
        return
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        send_all(pending_cases, Path(name))
    for path, cases in cases_by_file.items():
        lines = (json.dumps(case, ensure_ascii=False) for case in sorted(cases, key=itemgetter("name")))
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main(capture_all="--all" in sys.argv[1:])
