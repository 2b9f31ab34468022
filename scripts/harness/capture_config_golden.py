"""Captures Connect's config definitions, plugin descriptions and validations for `tests/golden`.

    python -m scripts.harness.capture_config_golden [--all]

Writes `config/VERSION` with small Java programs: the definitions of Kafka's classes (`definitions.json`), and the
results of parsing values (`semantics.json`). Then it completes the cases in `rest/VERSION`, in the files
`validate.jsonl` and `plugins.jsonl`: it adds `status` and `body` to each line without them, or with `--all` to every
line. The request of a case depends on its keys:

- `path`: GET of this path; else
- `request`: validation for `plugin`, by a worker with the override policy `policy` and the group `group`, if given,
  and by a standalone worker if `mode` is `standalone`; else
- `plugin`: description of the plugin, with `query` if given.

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

Question = dict[str, Any]


def run_program(program: str, *arguments: str) -> Any:
    """Run a Java program of this directory; return the JSON that it prints."""
    source = Path(__file__).parent / program
    command = [str(find_java()), "-cp", class_path(), str(source), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True, timeout=120)
    return json.loads(done.stdout)


def write(path: Path, content: object) -> None:
    """Write a JSON file, creating its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def choose_worker(question: Question) -> tuple[str, str, str]:
    """Return the mode, the override policy and the group of the worker for a question."""
    mode = str(question.get("mode", "distributed"))
    return mode, str(question.get("policy", "All")), str(question.get("group", GROUP))


def ask(client: httpx2.Client, question: Question) -> None:
    """Add a worker's response to a question."""
    if "path" in question:
        response = client.get(question["path"])
    elif "request" in question:
        path = f"/connector-plugins/{quote(question['plugin'], safe='')}/config/validate"
        response = client.put(path, json=question["request"])
    else:
        path = f"/connector-plugins/{quote(question['plugin'], safe='')}/config{question.get('query', '')}"
        response = client.get(path)
    question["status"] = response.status_code
    question["body"] = remove_documentation(response.json())


def remove_documentation(body: Any) -> Any:
    """Return a response body without Kafka's documentation."""
    if isinstance(body, list):
        return [remove_documentation(each) for each in body]
    if isinstance(body, dict):
        return {key: remove_documentation(each) for key, each in body.items() if key != "documentation"}
    return body


def start(bootstrap: str, directory: Path, mode: str, policy: str, group: str) -> Worker:
    """Start a worker and wait until it is healthy."""
    extra = {"connector.client.config.override.policy": policy}
    directory.mkdir(parents=True)
    if mode == "standalone":
        worker = java_standalone(bootstrap, directory, extra)
    else:
        worker = distributed("java", bootstrap, directory, group=group, extra=extra)
    wait_until("it was healthy", worker.rest.is_healthy, timeout_s=START_TIMEOUT_S, program=worker.process)
    return worker


def answer_all(questions: list[Question], directory: Path) -> None:
    """Send each question to its worker, one worker after the other."""
    broker = Broker(directory / "kafka", free_port())
    broker.start()
    try:
        for number, kind in enumerate(sorted({choose_worker(each) for each in questions})):
            worker = start(broker.bootstrap, directory / f"worker-{number}", *kind)
            try:
                with httpx2.Client(base_url=worker.rest.url, timeout=60.0, trust_env=False) as client:
                    for question in questions:
                        if choose_worker(question) == kind:
                            ask(client, question)
            finally:
                worker.stop()
    finally:
        broker.stop()


def main(*, again: bool) -> None:
    """Capture the missing responses, or all of them."""
    names = [f"{name}={owner}" for name, owner in DEFINITIONS.items()]
    write(GOLDEN / "config" / CURRENT / "definitions.json", run_program("ConfigDefinitions.java", *names))
    write(GOLDEN / "config" / CURRENT / "semantics.json", run_program("ConfigSemantics.java"))
    files = [GOLDEN / "rest" / CURRENT / f"{family}.jsonl" for family in ("plugins", "validate")]
    questions_by_file = {
        path: [json.loads(line) for line in path.read_text("utf-8").splitlines()] for path in files
    }
    pending = [
        each for questions in questions_by_file.values() for each in questions if again or "body" not in each
    ]
    if not pending:
        return
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        answer_all(pending, Path(name))
    for path, questions in questions_by_file.items():
        lines = (json.dumps(each, ensure_ascii=False) for each in sorted(questions, key=itemgetter("name")))
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main(again="--all" in sys.argv[1:])
