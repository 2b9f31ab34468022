"""Runs the fuzzers of `tests/fuzz/` repeatedly, and prints the findings of each round and a summary.

The findings include commands that reproduce them. The exit code is 1 if there are findings.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from kraal.broker.broker import Broker, free_port
from kraal.testing.process import WorkerProcess
from tests.fuzz.findings import from_bytes, from_schema
from tests.fuzz.target import MODES, Target, target

PROCESS: Final = "process"
EXAMPLES_PER_OPERATION: Final = 100
REQUESTS: Final = 3_000
_TIMEOUT_S: Final = 1_800


def main() -> int:
    """Fuzz until the time is up; return 1 if there are findings."""
    options = _arguments()
    logging.disable(logging.CRITICAL)  # workers log every failed request
    print(
        f"Fuzzing for {options.minutes:g} minutes with seed {options.seed}: {', '.join(options.workers)}.",
        flush=True,
    )
    end_s = time.monotonic() + 60 * options.minutes
    findings, round_number = 0, 0
    with tempfile.TemporaryDirectory() as directory:
        while round_number < len(options.workers) or time.monotonic() < end_s:
            kind = options.workers[round_number % len(options.workers)]
            seed = options.seed + round_number // len(options.workers)
            home = Path(directory) / str(round_number)
            with _worker(kind, home) as worker:
                findings += _round(kind, worker, seed, lambda: time.monotonic() > end_s)
            findings += _report(kind, seed, worker.faults)
            round_number += 1
    print(f"{round_number} rounds: {f'{findings} findings (see above)' if findings else 'no findings'}.")
    return 1 if findings else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument(
        "--minutes",
        type=float,
        default=10.0,
        metavar="N",
        help="duration in minutes; each worker gets at least one round (default: 10)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=time.time_ns() % 1_000_000,
        metavar="S",
        help="seed of the run (default: random)",
    )
    parser.add_argument(
        "--workers",
        nargs="+",
        choices=[*MODES, PROCESS],
        default=[*MODES, PROCESS],
        metavar="KIND",
        help=f"workers to test in turn: {', '.join(MODES)} (without Spark and Kafka), "
        f"{PROCESS} (kraal standalone with both); default: all",
    )
    return parser.parse_args()


def _round(kind: str, worker: Target, seed: int, is_over: Callable[[], bool]) -> int:
    """Run both fuzzers on one worker; return the number of findings."""
    start_s = time.monotonic()
    # At TRACE, a worker process would log a gigabyte.
    excluded = ["setLoggerLevel"] if kind == PROCESS else []
    report = from_schema(
        worker.url, seed, EXAMPLES_PER_OPERATION, skipped_operations=excluded, timeout_s=_TIMEOUT_S
    )
    if report:
        print(report, flush=True)
    findings = from_bytes(
        *worker.address, seed, REQUESTS, should_stop=is_over, changes_loggers=kind != PROCESS
    )
    worker.check_alive()
    print(
        f"{kind}, seed {seed}: {time.monotonic() - start_s:.0f} s, by schema "
        f"{'FINDINGS' if report else 'no findings'}, by bytes {len(findings) or 'no'} findings",
        flush=True,
    )
    return bool(report) + _report(
        kind, seed, [f"{finding.fault}\n    {finding.command}" for finding in findings]
    )


def _report(kind: str, seed: int, faults: list[str]) -> int:
    for fault in faults:
        print(f"FINDING ({kind}, seed {seed}): {fault}", flush=True)
    return len(faults)


def _worker(kind: str, directory: Path) -> AbstractContextManager[Target]:
    return _process(directory) if kind == PROCESS else target(kind)


@contextmanager
def _process(directory: Path) -> Iterator[Target]:
    """Run `kraal standalone` with its own broker."""
    broker = Broker(directory / "kafka", free_port())
    broker.start()
    process = WorkerProcess(directory / "worker", broker.bootstrap)
    try:
        process.start()
        target = Target(f"{process.url}/")
        yield target
        exit_code = process.end() if process.alive else process.exit_code
        if exit_code != 0:
            target.faults.append(f"the worker exited with {exit_code}:\n{process.log_text()[-3_000:]}")
        target.faults += [line for line in process.log_text().splitlines() if "; restarting it in" in line]
    finally:
        process.close()
        broker.stop()


if __name__ == "__main__":
    sys.exit(main())
