"""Runs benchmarks that compare Kraal with Java Kafka Connect. Each benchmark has its own broker."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from kraal.core.errors import KraalError
from scripts.bench.control import (
    assign,
    churn,
    client,
    cluster100,
    cluster1000,
    cluster_lost,
    create100,
    create1000,
    java_plugins_rest,
    java_plugins_start,
    rest,
    restart,
    restart_cluster,
    rolling,
    start,
    ui,
)
from scripts.bench.data import (
    big,
    busy100,
    busy100_distributed,
    busy100_exactly_once,
    cold,
    exactly_once,
    java_plugins,
    java_plugins_debezium,
    latency,
    ledger,
    mirror_latency,
    prove,
    prove_damaged,
    read_log,
    sink,
    sink_transforms,
    source,
    spark_cluster,
    tables,
    tables_cdc,
    tables_day,
    tables_latency,
    transforms,
)
from scripts.bench.lab import GIGABYTES, SIDES, Lab, Options, open_lab
from scripts.bench.report import COLUMNS, Case, describe_machine, format_table
from scripts.harness.processes import ignore_signals, interrupt_on_signals


class Benchmark(Protocol):
    """A benchmark module. The first line of its docstring must be the name and a description."""

    def run(self, lab: Lab) -> list[Case]:
        """Measure both sides and return the results."""


BENCHMARKS: dict[str, Benchmark] = {
    "source": source,
    "sink": sink,
    "transforms": transforms,
    "sink-transforms": sink_transforms,
    "tables": tables,
    "tables-cdc": tables_cdc,
    "tables-latency": tables_latency,
    "tables-day": tables_day,
    "ledger": ledger,
    "prove": prove,
    "prove-damaged": prove_damaged,
    "java-plugins": java_plugins,
    "java-plugins-debezium": java_plugins_debezium,
    "java-plugins-rest": java_plugins_rest,
    "java-plugins-start": java_plugins_start,
    "start": start,
    "cold": cold,
    "restart": restart,
    "latency": latency,
    "mirror-latency": mirror_latency,
    "create100": create100,
    "create1000": create1000,
    "busy100": busy100,
    "exactly-once": exactly_once,
    "busy100-distributed": busy100_distributed,
    "busy100-exactly-once": busy100_exactly_once,
    "big": big,
    "rest": rest,
    "churn": churn,
    "cluster100": cluster100,
    "cluster1000": cluster1000,
    "cluster-lost": cluster_lost,
    "rolling": rolling,
    "restart-cluster": restart_cluster,
    "ui": ui,
    "client": client,
    "assign": assign,
    "read-log": read_log,
    "spark-cluster": spark_cluster,
}
BROKER_SETTINGS: dict[str, Mapping[str, str]] = {"big": big.BROKER_SETTINGS}
"""Additional broker settings by benchmark."""


def main() -> int:
    """Run the benchmarks named on the command line; return the exit code."""
    interrupt_on_signals()
    arguments = _parser().parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        print(f"Unknown benchmark {unknown[0]}; the benchmarks are {', '.join(BENCHMARKS)}.", file=sys.stderr)
        return 1
    options = Options(
        quick=arguments.quick,
        sides=SIDES if arguments.side == "both" else (arguments.side,),
        gigabytes=arguments.gigabytes,
    )
    results: list[dict[str, Any]] = []
    has_failed = False
    print(machine_line := describe_machine(), flush=True)
    for name in arguments.names or BENCHMARKS:
        try:
            cases = _run(name, options)
        except KeyboardInterrupt:
            print("Interrupted; all processes have been stopped.", file=sys.stderr)
            return 130
        except KraalError as exc:
            print(f"{name} failed: {exc}", file=sys.stderr)
            has_failed = True
            continue
        results += [case.as_json(name) for case in cases]
    if arguments.json:
        path = Path(os.environ.get("KRAAL_CALLED_FROM", ".")) / arguments.json
        path.write_text(
            json.dumps({"machine": machine_line, "cases": results}, indent=2) + "\n", encoding="utf-8"
        )
    return 1 if has_failed else 0


def _run(name: str, options: Options) -> list[Case]:
    start_s = time.monotonic()
    print(f"\n{name}: {_get_description(name)}", flush=True)
    with tempfile.TemporaryDirectory(prefix=f"kraal-bench-{name}-", ignore_cleanup_errors=True) as directory:
        try:
            with open_lab(options, Path(directory), BROKER_SETTINGS.get(name, {})) as lab:
                cases = BENCHMARKS[name].run(lab)
        except KeyboardInterrupt:
            ignore_signals()
            raise
    print(format_table(cases, getattr(BENCHMARKS[name], "COLUMNS", COLUMNS)))
    print(
        f"({time.monotonic() - start_s:.0f} s{', --quick: smaller than the full run' if options.quick else ''})"
    )
    return cases


def _get_description(name: str) -> str:
    text = inspect.getdoc(BENCHMARKS[name]) or ""
    return text.partition("\n")[0].partition(": ")[2]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/bench/run",
        description=inspect.getdoc(sys.modules[__name__]),
        epilog="\n\n".join(inspect.getdoc(module) or "" for module in BENCHMARKS.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(BENCHMARKS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{names}; default: all")
    parser.add_argument("--json", metavar="FILE", help="also write the machine and the results to FILE")
    parser.add_argument(
        "--quick", action="store_true", help="use fewer lines and rounds, to test the scripts"
    )
    parser.add_argument(
        "--gigabytes",
        type=float,
        default=GIGABYTES,
        help="size in GB of the data that big sends (default: %(default)g)",
    )
    parser.add_argument("--side", choices=(*SIDES, "both"), default="both", help="measure only one side")
    return parser


if __name__ == "__main__":
    sys.exit(main())
