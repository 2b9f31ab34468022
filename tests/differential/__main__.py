"""Replays the script and prints the differences: `python -m tests.differential [FAMILY…]`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kraal.broker.broker import Broker, free_port
from tests.differential.replay import TimeLimits
from tests.differential.steps.all_steps import SCRIPT
from tests.differential.workers import ReplayedStep, replay_all

LIMITS = TimeLimits(condition_s=15, script_s=150)


def main(families: list[str]) -> None:
    """Replay the steps of these families (default: all) in both modes concurrently."""
    steps = [step for step in SCRIPT if not families or step.name.partition(":")[0] in families]
    with tempfile.TemporaryDirectory() as directory:
        broker = Broker(Path(directory) / "kafka", free_port())
        broker.start()
        try:
            results = replay_all(steps, Path(directory), broker.bootstrap, LIMITS)
        finally:
            broker.stop()
    sys.stdout.write("\n".join(_report(results)) + "\n")


def _report(results: Mapping[str, Sequence[ReplayedStep]]) -> Iterator[str]:
    """Yield the differences, and the rows of docs/compat.md that are needed."""
    needed_rows: set[str] = set()
    for mode, replayed in results.items():
        verdicts = [(replayed_step.step, replayed_step.verdict) for replayed_step in replayed]
        needed_rows |= {row for _, verdict in verdicts if not verdict.faults for row in verdict.needed_rows}
        for step, verdict in verdicts:
            if verdict.faults:
                request = step.requests[0]
                sent = (request.body or b"").decode("utf-8", "replace")[:300]
                yield f"\n## {mode}: {step.name}\n{request.method} {request.target} {sent}"
                yield from verdict.faults
        faulty_count = sum(bool(verdict.faults) for _, verdict in verdicts)
        yield f"\n{mode}: {len(verdicts)} steps, {faulty_count} with faults"
    yield f"rows needed: {' '.join(sorted(needed_rows))}"


if __name__ == "__main__":
    main(sys.argv[1:])
