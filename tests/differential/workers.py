"""Runs the two workers of one mode, each with its own group or files, and replays the script on both."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraal.testing.process import WorkerProcess
from kraal.testing.process_cluster import QUICK_PROPERTIES
from scripts.harness.java_connect import CURRENT
from tests.differential.compare import Verdict, judge
from tests.differential.exchange import DISTRIBUTED, Placeholders, Response
from tests.differential.replay import Replay, TimeLimits
from tests.differential.script import MODES, Step
from tests.differential.steps.everywhere import EVERYWHERE
from tests.fakes.workers.java_worker import JavaWorker

PROPERTIES: Final = {"offset.flush.interval.ms": "1000", "spark.driver.memory": "512m"}
"""Properties of all workers; Java stores offsets only every 60 s by default."""


@dataclass(frozen=True, slots=True)
class ReplayedStep:
    """The responses of both workers to one step."""

    step: Step
    java: Sequence[Response]
    kraal: Sequence[Response]

    @property
    def verdict(self) -> Verdict:
        """The comparison of the responses with the allowances."""
        return judge(self.step, self.java, self.kraal, EVERYWHERE)


@contextmanager
def workers(
    mode: str, directory: Path, bootstrap: str, version: str = CURRENT
) -> Iterator[tuple[WorkerProcess, WorkerProcess]]:
    """Run a Java worker of this version and a Kraal worker, started in parallel; yield them in this order."""

    def group() -> str | None:
        return f"differential-{uuid.uuid4().hex[:8]}" if mode == DISTRIBUTED else None

    properties: Mapping[str, str] = {**(QUICK_PROPERTIES if mode == DISTRIBUTED else {}), **PROPERTIES}
    java = JavaWorker(directory / "java", bootstrap, group=group(), properties=properties, version=version)
    kraal = WorkerProcess(directory / "kraal", bootstrap, group=group(), properties=properties)
    both_workers = (java, kraal)
    try:
        with ThreadPoolExecutor() as threads:
            list(threads.map(_start, both_workers))
        yield both_workers
        codes = [worker.end() for worker in both_workers]
    finally:
        for worker in both_workers:
            worker.close()
    if codes != [143, 0]:
        raise AssertionError(f"Java and Kraal exited with {codes}\n{kraal.log_text()}")


def _start(worker: WorkerProcess) -> None:
    worker.start()
    worker.wait_until("the worker was healthy", lambda: bool(worker.get("/health").status == 200))
    # Java does not respond before it has the id. Kraal fetches the id in the background.
    worker.wait_until(
        "the worker had the id of the Kafka cluster", lambda: bool(worker.get("/").body["kafka_cluster_id"])
    )


def replay_on_both(
    steps: Sequence[Step],
    mode: str,
    directory: Path,
    bootstrap: str,
    limits: TimeLimits,
    version: str = CURRENT,
) -> list[ReplayedStep]:
    """Start both workers, replay the steps of the mode on both concurrently, and stop them."""
    selected_steps = [step.in_mode(mode) for step in steps if step.only in ("", mode)]
    with workers(mode, directory, bootstrap, version) as both_workers, ThreadPoolExecutor() as threads:
        java, kraal = threads.map(
            lambda worker: Replay(worker.url, _make_placeholders(worker), limits, worker.evidence).run(
                selected_steps
            ),
            both_workers,
        )
    return [
        ReplayedStep(*step_and_responses)
        for step_and_responses in zip(selected_steps, java, kraal, strict=True)
    ]


def replay_all(
    steps: Sequence[Step], directory: Path, bootstrap: str, limits: TimeLimits, version: str = CURRENT
) -> Mapping[str, list[ReplayedStep]]:
    """Replay the script in both modes concurrently, because most of the time is spent waiting."""
    with ThreadPoolExecutor() as threads:
        futures = {
            mode: threads.submit(replay_on_both, steps, mode, directory / mode, bootstrap, limits, version)
            for mode in MODES
        }
        return {mode: future.result() for mode, future in futures.items()}


def _make_placeholders(worker: WorkerProcess) -> Placeholders:
    return Placeholders(
        tag=f"t{uuid.uuid4().hex[:8]}",
        directory=str(worker.directory),
        authority=worker.url.partition("//")[2],
    )
