"""Overloads a worker and prints the results.

`python -m scripts.load_run` runs all cases, or only the named ones: requests, bodies, tasks, replay, connectors. The
exit code is 1 if a response was missing, had status 500, or had status 503 without `Retry-After`.
"""

from __future__ import annotations

import argparse
import sys

from scripts.load_run.cases import CASES, faults


def main() -> int:
    """Run the cases named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"{', '.join(CASES)}; default: all")
    names = parser.parse_args().cases or list(CASES)
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"unknown case {unknown[0]}; the cases are {', '.join(CASES)}")
    violations: list[str] = []
    for name in names:
        for result in CASES[name]():
            print(f"{name}: {result.line()}", flush=True)
            violations += faults(result)
    for violation in violations:
        print(f"violation: {violation}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
