"""Hurts a real cluster for a time, by a seed: actors, processes, Spark, the broker, connections.

Lines flow through file connectors in both directions meanwhile, and clients create, configure, restart, pause and
delete connectors. In the end the cluster is left alone, and the verdict says whether it kept what Kraal promises.
Exit code 1 when it did not; then all logs are kept.
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
from scripts.chaos_run.verdict import passed

_TERMINATED = 128 + signal.SIGTERM


def main() -> int:
    """Run, and print the verdict; return 1 when a line of it is not met."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))  # so that all that was started ends
    logging.disable(logging.CRITICAL)  # clients complain of a broker that is away, as they should
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
    good = passed(lines)
    print("All of it was kept." if good else f"NOT all of it was kept. Logs: {directory}", flush=True)
    if good and chosen.directory is None:
        shutil.rmtree(directory, ignore_errors=True)
    return 0 if good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=3.0, metavar="M", help="how long, from start to verdict, about (3)"
    )
    parser.add_argument(
        "--seed", type=int, default=time.time_ns() % 1_000_000, metavar="S", help="repeats a run (any)"
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
        help=f"do nothing but this; may be given several times: {', '.join(KINDS)}",
    )
    parser.add_argument(
        "--first",
        action="append",
        choices=[kind for kind in KINDS if kind not in (ACTORS, CLIENTS)],
        metavar="KIND",
        help="let this fault come before all others; may be given several times",
    )
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where files and logs go, and are kept")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
