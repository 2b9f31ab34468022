"""Measures Connect's assignor in a JVM with a small program that calls its private method by reflection."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kraal.jars.java import find_java
from scripts.bench.lab import Lab, say
from scripts.harness.java_connect import class_path
from scripts.harness.workers import LOG4J2_CONFIG

PROGRAM = Path(__file__).with_name("AssignBench.java")
TIMEOUT_S = 300.0


def measure(
    lab: Lab, members: int, tasks: int, per_connector: int, times: int, names: tuple[str, str]
) -> dict[str, list[float]]:
    """Return the milliseconds of each round by name. Prints a message and returns {} if the program fails."""
    log4j2 = lab.directory / "log4j2.xml"
    log4j2.write_text(LOG4J2_CONFIG.replace('level="INFO"', 'level="ERROR"'), encoding="ascii")
    command = [str(find_java()), "-Xmx2G", f"-Dlog4j2.configurationFile={log4j2.as_uri()}"]
    command += ["-cp", class_path(), str(PROGRAM)]
    command += [str(number) for number in (members, tasks, per_connector, times)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if completed.returncode:
        say(f"Failed to measure Java's assignor: {_extract_reason(completed.stderr or completed.stdout)}")
        return {}
    rows = [
        [float(word) for word in line.split()] for line in completed.stdout.splitlines() if line[:1].isdigit()
    ]
    say(f"java: {len(rows)} measurements")
    return {name: [row[index] for row in rows] for index, name in enumerate(names)}


def _extract_reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    return next(
        (line for line in lines if line.startswith(("Caused by", "error"))), lines[0] if lines else "?"
    )
