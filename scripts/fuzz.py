"""The long fuzzing run. Prints what each round found, with lines that repeat it, and a verdict at the end.

The exit code is 1 when anything was found. The fuzzers are those of `tests/fuzz/`.
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
OF_EACH_OPERATION: Final = 100
REQUESTS: Final = 3_000
_TIMEOUT_S: Final = 1_800


def main() -> int:
    """Fuzz until the time is over; return 1 when something was found."""
    chosen = _arguments()
    logging.disable(logging.CRITICAL)  # workers tell of every request that fails
    print(
        f"Fuzzing for {chosen.minutes:g} minutes with seed {chosen.seed}: {', '.join(chosen.workers)}.",
        flush=True,
    )
    ends_s = time.monotonic() + 60 * chosen.minutes
    findings, turn = 0, 0
    with tempfile.TemporaryDirectory() as directory:
        while turn < len(chosen.workers) or time.monotonic() < ends_s:
            kind = chosen.workers[turn % len(chosen.workers)]
            seed = chosen.seed + turn // len(chosen.workers)
            place = Path(directory) / str(turn)
            with _worker(kind, place) as worker:
                findings += _round(kind, worker, seed, lambda: time.monotonic() > ends_s)
            findings += _report(kind, seed, worker.faults)
            turn += 1
    print(f"{turn} rounds: {'nothing was found.' if not findings else f'{findings} findings, above.'}")
    return 1 if findings else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument(
        "--minutes",
        type=float,
        default=10.0,
        metavar="N",
        help="how long; each worker gets a round at least (10)",
    )
    parser.add_argument(
        "--seed", type=int, default=time.time_ns() % 1_000_000, metavar="S", help="repeats a run (any)"
    )
    parser.add_argument(
        "--workers",
        nargs="+",
        choices=[*MODES, PROCESS],
        default=[*MODES, PROCESS],
        metavar="KIND",
        help=f"which are asked in turn: {', '.join(MODES)} (without Spark and Kafka), "
        f"{PROCESS} (kraal standalone with both); default: all",
    )
    return parser.parse_args()


def _round(kind: str, worker: Target, seed: int, over: Callable[[], bool]) -> int:
    """Ask one worker both ways; return how much was found."""
    began_s = time.monotonic()
    # A real worker has loggers that are everybody's: at TRACE it writes a gigabyte.
    left_out = ["setLoggerLevel"] if kind == PROCESS else []
    report = from_schema(worker.url, seed, OF_EACH_OPERATION, operations=left_out, timeout_s=_TIMEOUT_S)
    if report:
        print(report, flush=True)
    findings = from_bytes(*worker.address, seed, REQUESTS, enough=over, loggers=kind != PROCESS)
    worker.check_alive()
    print(
        f"{kind}, seed {seed}: {time.monotonic() - began_s:.0f} s, by the document "
        f"{'FINDINGS' if report else 'nothing'}, by bytes {len(findings) or 'nothing'}",
        flush=True,
    )
    return bool(report) + _report(kind, seed, [f"{each.what}\n    {each.again}" for each in findings])


def _report(kind: str, seed: int, faults: list[str]) -> int:
    for each in faults:
        print(f"FOUND ({kind}, seed {seed}): {each}", flush=True)
    return len(faults)


def _worker(kind: str, place: Path) -> AbstractContextManager[Target]:
    return _process(place) if kind == PROCESS else target(kind)


@contextmanager
def _process(place: Path) -> Iterator[Target]:
    """Run `kraal standalone` next to a broker of its own."""
    broker = Broker(place / "kafka", free_port())
    broker.start()
    process = WorkerProcess(place / "worker", broker.bootstrap)
    try:
        process.start()
        target = Target(f"{process.url}/")
        yield target
        code = process.end() if process.alive else process.exit_code
        if code != 0:
            target.faults.append(f"the worker ended with {code}:\n{process.log_text()[-3_000:]}")
        target.faults += [line for line in process.log_text().splitlines() if "; restarting it in" in line]
    finally:
        process.close()
        broker.stop()


if __name__ == "__main__":
    sys.exit(main())
