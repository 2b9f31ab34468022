"""The rates of Kafka's own performance tools, to which the rates of connectors are compared.

`kafka-producer-perf-test` sends records from memory, and `kafka-consumer-perf-test` drops the records that it reads. No
connector can be much faster on the same machine with the same settings.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from kraal.jars.jars import ensure
from kraal.jars.java import find_java
from scripts.bench.lab import TRANSFER_TIMEOUT_S, Lab, say
from scripts.bench.report import Case, Target
from scripts.harness.processes import ScriptFailed

PRODUCER_TOOL: Final = "kafka-producer-perf-test"
CONSUMER_TOOL: Final = "kafka-consumer-perf-test"
SHARE: Final = 0.85
"""The least share of the rate of the tool."""
_PAYLOADS: Final = 10_000
_WARM_UP_RECORDS: Final = 1_000_000
_TOOLS: Final = "org.apache.kafka.tools"
_FETCH_RATE: Final = -1
"""The column of the consumer's output with the records per second without the time of the rebalance."""


def measure_producer(lab: Lab, settings: Mapping[str, str], *options: str) -> float:
    """Return the records per second of a producer that sends the lines of a transfer to a new topic."""
    topic, lines = lab.topic("limit"), lab.options.lines()
    warm_up = min(_WARM_UP_RECORDS, lines)
    properties = {"bootstrap.servers": lab.bootstrap, **settings}
    lab.settle()
    output = _run_tool(
        "ProducerPerformance",
        *("--topic", topic, "--payload-file", str(lab.file(_PAYLOADS)), "--throughput", "-1"),
        *("--num-records", str(lines + warm_up), "--warmup-records", str(warm_up)),
        *("--producer-props", *(f"{key}={value}" for key, value in properties.items())),
        *options,
    )
    rates = [line.split(" records sent, ")[1].split()[0] for line in output if " records sent, " in line]
    return _report(PRODUCER_TOOL, float(rates[-1]))


def measure_consumer(lab: Lab, topic: str) -> float:
    """Return the records per second of a consumer that reads a topic."""
    lab.settle()
    output = _run_tool(
        "ConsumerPerformance",
        *("--bootstrap-server", lab.bootstrap, "--topic", topic, "--num-records", str(lab.options.lines())),
        "--hide-header",
    )
    return _report(CONSUMER_TOOL, float(output[-1].split(",")[_FETCH_RATE]))


def compare_with_tool(tool: str, limits: Sequence[float], rates: Sequence[float]) -> Case:
    """Return the row with the rates of a tool, in Java's column, and of Kraal."""
    return Case(
        f"  Java: {tool}", "records/s", limits, rates, more_is_better=True, wanted=Target(ratio=SHARE)
    )


def _run_tool(name: str, *arguments: str) -> list[str]:
    class_path = os.pathsep.join(map(str, ensure("connect")))
    command = [str(find_java()), "-Xmx512m", "-cp", class_path, f"{_TOOLS}.{name}", *arguments]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=TRANSFER_TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
    output = result.stdout.strip().splitlines()
    if result.returncode or not output:
        raise ScriptFailed(f"{name} failed: {result.stderr.strip() or result.stdout.strip()}")
    return output


def _report(tool: str, rate: float) -> float:
    say(f"{tool}: {rate:,.0f} records/s")
    return rate
