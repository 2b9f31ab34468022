"""`python -m tests.differential [FAMILY…]`: replay, and print the differences, for development of the script."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kraal.broker.broker import Broker, free_port
from tests.differential.replay import TimeLimits
from tests.differential.stage import ReplayedStep, replay_all
from tests.differential.steps.all_steps import SCRIPT

LIMITS = TimeLimits(condition_s=15, script_s=150)


def main(families: list[str]) -> None:
    """Replay the steps of these families, or of all, in both modes concurrently."""
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
    """Yield the differences and the needed rows."""
    needed: set[str] = set()
    for mode, replayed in results.items():
        verdicts = [(each.step, each.verdict) for each in replayed]
        needed |= {row for _, verdict in verdicts if not verdict.faults for row in verdict.needed}
        for step, verdict in verdicts:
            if verdict.faults:
                request = step.requests[0]
                sent = (request.body or b"").decode("utf-8", "replace")[:300]
                yield f"\n## {mode}: {step.name}\n{request.method} {request.target} {sent}"
                yield from verdict.faults
        wrong = sum(bool(verdict.faults) for _, verdict in verdicts)
        yield f"\n{mode}: {len(verdicts)} steps, {wrong} with faults"
    yield f"rows needed: {' '.join(sorted(needed))}"


if __name__ == "__main__":
    main(sys.argv[1:])
