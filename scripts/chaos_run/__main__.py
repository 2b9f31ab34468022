"""Injects a seeded sequence of faults into the actors, processes, broker and connections of a real cluster.

Meanwhile, lines flow through file connectors in both directions, and clients create, configure, restart, pause and
delete connectors. After the faults, the verdict reports whether the cluster met Kraal's guarantees. If a guarantee was
violated, the exit code is 1 and all logs are kept.
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

from scripts.chaos_run.run import RunOptions, run
from scripts.chaos_run.schedule import ACTORS, CLIENTS, KINDS, OUTAGE_S
from scripts.chaos_run.verdict import meets_all_guarantees

_SIGTERM_EXIT_CODE = 128 + signal.SIGTERM


def main() -> int:
    """Run the faults and print the verdict; return 1 if a guarantee was violated."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_SIGTERM_EXIT_CODE))  # stops all child processes
    logging.disable(logging.CRITICAL)  # clients log expected errors while the broker is down
    options = _arguments()
    run_options = RunOptions(
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
        f"Chaos for {options.minutes:g} minutes with seed {run_options.seed}: {run_options.workers} workers,"
        f" {run_options.pipes} pipes and {run_options.small} with a small flow. Logs: {directory}",
        flush=True,
    )
    lines = run(run_options, directory)
    print(f"\nVerdict of seed {run_options.seed}, after {time.monotonic() - start_s:.0f} s:")
    for line in lines:
        mark = {True: "ok   ", False: "FAIL ", None: "     "}[line.is_met]
        print(f"{mark} {line.text}")
    has_passed = meets_all_guarantees(lines)
    print(
        "All guarantees were met." if has_passed else f"Guarantees were violated. Logs: {directory}",
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
        help=f"duration of the long broker outage in minutes (default: {OUTAGE_S / 60:g}); runs of less than half an"
        " hour include the outage only if --first or --only names it",
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
