"""Injects faults into a real cluster by a seed, in its actors, processes, Spark, the broker and connections.

Meanwhile lines flow through file connectors in both directions, and clients create, configure, restart, pause and
delete connectors. Then the faults stop, and the verdict reports whether the cluster kept Kraal's guarantees. If not,
the exit code is 1, and all logs are kept.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from scripts.chaos_run.run import Plan, run
from scripts.chaos_run.schedule import ACTORS, CLIENTS, KINDS, OUTAGE_S
from scripts.chaos_run.verdict import is_passed

_TERMINATED = 128 + signal.SIGTERM


def main() -> int:
    """Run and print the verdict; return 1 if a line of it is not met."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))  # stops all child processes
    logging.disable(logging.CRITICAL)  # clients log expected errors while the broker is down
    chosen = _arguments()
    plan = Plan(
        seed=chosen.seed,
        seconds=60 * chosen.minutes,
        workers=chosen.workers,
        pipes=chosen.pipes,
        kinds=tuple(chosen.only or KINDS),
        first=tuple(chosen.first or ()),
        small=chosen.small,
        outage_s=60 * chosen.outage,
    )
    directory = chosen.directory or Path(tempfile.mkdtemp(prefix="chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    began_s = time.monotonic()
    print(
        f"Chaos for {chosen.minutes:g} minutes with seed {plan.seed}: {plan.workers} workers,"
        f" {plan.pipes} pipes and {plan.small} with a small flow. Logs: {directory}",
        flush=True,
    )
    lines = run(plan, directory)
    print(f"\nVerdict of seed {plan.seed}, after {time.monotonic() - began_s:.0f} s:")
    for each in lines:
        mark = {True: "ok   ", False: "NOT  ", None: "     "}[each.met]
        print(f"{mark} {each.text}")
    good = is_passed(lines)
    print(
        "All guarantees were kept." if good else f"NOT all guarantees were kept. Logs: {directory}",
        flush=True,
    )
    if good and chosen.directory is None:
        shutil.rmtree(directory, ignore_errors=True)
    return 0 if good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument(
        "--minutes",
        type=float,
        default=3.0,
        metavar="M",
        help="approximate duration from start to verdict (3)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=time.time_ns() % 1_000_000,
        metavar="S",
        help="seed, which repeats a run (random)",
    )
    parser.add_argument("--workers", type=int, default=3, metavar="N", help="worker processes (3)")
    parser.add_argument("--pipes", type=int, default=3, metavar="N", help="pairs of a source and a sink (3)")
    parser.add_argument(
        "--small", type=int, default=3, metavar="N", help="more pairs, with a small flow that uses lanes (3)"
    )
    parser.add_argument(
        "--outage",
        type=float,
        default=OUTAGE_S / 60,
        metavar="M",
        help=f"minutes of the long outage of the broker ({OUTAGE_S / 60:g}); runs of half an hour or more have one,"
        " shorter ones if --first or --only names it",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=KINDS,
        metavar="KIND",
        help=f"run only this kind; may be repeated: {', '.join(KINDS)}",
    )
    parser.add_argument(
        "--first",
        action="append",
        choices=[kind for kind in KINDS if kind not in (ACTORS, CLIENTS)],
        metavar="KIND",
        help="inject this fault before all others; may be repeated",
    )
    parser.add_argument(
        "--directory", type=Path, metavar="DIR", help="directory for files and logs, which are kept"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
