"""The two workers of one mode, each alone with its own group or files, and the script replayed on both."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraal.testing.process import WorkerProcess
from kraal.testing.process_cluster import QUICK
from scripts.harness.java_connect import CURRENT
from tests.differential.compare import Verdict, judge
from tests.differential.exchange import DISTRIBUTED, Answer, Here
from tests.differential.replay import Patience, Replay
from tests.differential.script import MODES, Step
from tests.differential.steps.everywhere import EVERYWHERE
from tests.fakes.workers.java_worker import JavaWorker

PROPERTIES: Final = {"offset.flush.interval.ms": "1000", "spark.driver.memory": "512m"}
"""Of all workers; Java stores offsets every 60 s by default."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What both said to one step."""

    step: Step
    java: Sequence[Answer]
    kraal: Sequence[Answer]

    @property
    def verdict(self) -> Verdict:
        """Whether it is the same, but for what is allowed."""
        return judge(self.step, self.java, self.kraal, EVERYWHERE)


@contextmanager
def workers(
    mode: str, directory: Path, bootstrap: str, version: str = CURRENT
) -> Iterator[tuple[WorkerProcess, WorkerProcess]]:
    """Run a Java worker of this version and a Kraal worker, in this order, started side by side."""

    def group() -> str | None:
        return f"differential-{uuid.uuid4().hex[:8]}" if mode == DISTRIBUTED else None

    properties: Mapping[str, str] = {**(QUICK if mode == DISTRIBUTED else {}), **PROPERTIES}
    java = JavaWorker(directory / "java", bootstrap, group=group(), properties=properties, version=version)
    kraal = WorkerProcess(directory / "kraal", bootstrap, group=group(), properties=properties)
    both = (java, kraal)
    try:
        with ThreadPoolExecutor() as threads:
            list(threads.map(_start, both))
        yield both
        codes = [worker.end() for worker in both]
    finally:
        for worker in both:
            worker.close()
    if codes != [143, 0]:
        raise AssertionError(f"Java and Kraal ended with {codes}\n{kraal.log_text()}")


def _start(worker: WorkerProcess) -> None:
    worker.start()
    worker.wait_until("it was well", lambda: bool(worker.get("/health").status == 200))
    # Java answers nothing before it knows this id; Kraal asks Kafka for it next to everything else
    worker.wait_until("it knew the Kafka cluster", lambda: bool(worker.get("/").body["kafka_cluster_id"]))


def replay_on_both(
    steps: Sequence[Step],
    mode: str,
    directory: Path,
    bootstrap: str,
    patience: Patience,
    version: str = CURRENT,
) -> list[Replayed]:
    """Start both workers, replay the steps of the mode on both at the same time, and end them."""
    wanted = [step.in_mode(mode) for step in steps if step.only in ("", mode)]
    with workers(mode, directory, bootstrap, version) as both, ThreadPoolExecutor() as threads:
        java, kraal = threads.map(
            lambda worker: Replay(worker.url, _here(worker), patience, worker.evidence).run(wanted), both
        )
    return [Replayed(*each) for each in zip(wanted, java, kraal, strict=True)]


def replay_all(
    steps: Sequence[Step], directory: Path, bootstrap: str, patience: Patience, version: str = CURRENT
) -> Mapping[str, list[Replayed]]:
    """Replay the script in both modes at the same time: most of it is waiting."""
    with ThreadPoolExecutor() as threads:
        begun = {
            mode: threads.submit(replay_on_both, steps, mode, directory / mode, bootstrap, patience, version)
            for mode in MODES
        }
        return {mode: each.result() for mode, each in begun.items()}


def _here(worker: WorkerProcess) -> Here:
    return Here(
        tag=f"t{uuid.uuid4().hex[:8]}",
        directory=str(worker.directory),
        authority=worker.url.partition("//")[2],
    )
