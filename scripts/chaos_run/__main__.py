"""Injects faults, determined by a seed, into a real cluster: its actors, processes, Spark, broker and connections.

Meanwhile, lines flow through file connectors in both directions, and clients create, configure, restart, pause and
delete connectors. After the faults, the verdict reports whether the cluster kept Kraal's guarantees. If not, the exit
code is 1 and all logs are kept.
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
from scripts.chaos_run.verdict import meets_all_guarantees

_TERMINATED = 128 + signal.SIGTERM


def main() -> int:
    """Run and print the verdict; return 1 if a guarantee was violated."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))  # stops all child processes
    logging.disable(logging.CRITICAL)  # clients log expected errors while the broker is down
    options = _arguments()
    plan = Plan(
        seed=options.seed,
        seconds=60 * options.minutes,
        workers=options.workers,
        pipes=options.pipes,
        kinds=tuple(options.only or KINDS),
        first=tuple(options.first or ()),
        small=options.small,
        outage_s=60 * options.outage,
    )
    directory = options.directory or Path(tempfile.mkdtemp(prefix="chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    start_s = time.monotonic()
    print(
        f"Chaos for {options.minutes:g} minutes with seed {plan.seed}: {plan.workers} workers,"
        f" {plan.pipes} pipes and {plan.small} with a small flow. Logs: {directory}",
        flush=True,
    )
    lines = run(plan, directory)
    print(f"\nVerdict of seed {plan.seed}, after {time.monotonic() - start_s:.0f} s:")
    for line in lines:
        mark = {True: "ok   ", False: "NOT  ", None: "     "}[line.met]
        print(f"{mark} {line.text}")
    has_passed = meets_all_guarantees(lines)
    print(
        "All guarantees were kept." if has_passed else f"NOT all guarantees were kept. Logs: {directory}",
        flush=True,
    )
    if has_passed and options.directory is None:
        shutil.rmtree(directory, ignore_errors=True)
    return 0 if has_passed else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument(
        "--minutes",
        type=float,
        default=3.0,
        metavar="M",
        help="approximate duration in minutes from start to verdict (default: 3)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=time.time_ns() % 1_000_000,
        metavar="S",
        help="seed of the schedule (default: random)",
    )
    parser.add_argument(
        "--workers", type=int, default=3, metavar="N", help="number of worker processes (default: 3)"
    )
    parser.add_argument(
        "--pipes",
        type=int,
        default=3,
        metavar="N",
        help="number of pairs of a source and a sink (default: 3)",
    )
    parser.add_argument(
        "--small",
        type=int,
        default=3,
        metavar="N",
        help="number of additional pairs with a small flow, which uses lanes (default: 3)",
    )
    parser.add_argument(
        "--outage",
        type=float,
        default=OUTAGE_S / 60,
        metavar="M",
        help=f"minutes of the long outage of the broker (default: {OUTAGE_S / 60:g}); runs of half an hour or more have"
        " one, shorter runs only if --first or --only names it",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=KINDS,
        metavar="KIND",
        help=f"inject only this kind of fault; may be repeated: {', '.join(KINDS)}",
    )
    parser.add_argument(
        "--first",
        action="append",
        choices=[kind for kind in KINDS if kind not in (ACTORS, CLIENTS)],
        metavar="KIND",
        help="inject this kind of fault before all others; may be repeated",
    )
    parser.add_argument(
        "--directory", type=Path, metavar="DIR", help="directory for files and logs, which are kept"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
