"""`prove`: the proof of a sink's delivery, for a file and for a directory; Kraal only.

FileStreamSource fills one topic with 10,000,000 lines. FileStreamSink writes them to a file, and SparkSink to text
files. Records/s is records divided by the time from the POST until a GET, sent every 200 ms, returns the result, which
must be PROVED. Then one line of the file is removed, and the result must be the offset of that line.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from scripts.bench.data.source import transfer
from scripts.bench.lab import Lab, say, sink_config
from scripts.bench.report import Case, Target
from scripts.harness.lines import LINE_BYTES_ON_DISK
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.workers import Worker

LINES: Final = 10_000_000
TIMES: Final = 3


def run(lab: Lab) -> list[Case]:
    """Fill a topic and both targets, and measure the proofs."""
    lines = lab.options.times(LINES, lab.options.lines())
    file = lab.file(lines)
    worker = lab.start_warm(("kraal",))["kraal"]
    topic = lab.topic("prove")
    transfer(lab, worker, file, topic, lines, {})
    target, folder = lab.directory / "proved.txt", lab.directory / "proved"
    file_sink = drain(lab, worker, sink_config(target, topic), lines)
    folder_config = {
        "connector.class": "SparkSink",
        "topics": topic,
        "spark.format": "text",
        "path": str(folder),
    }
    folder_sink = drain(lab, worker, folder_config, lines)
    times = lab.options.times(TIMES, 1)
    cases = [
        _case("FileStreamSink, proved", [_measure(lab, worker, file_sink, lines) for _ in range(times)]),
        _case(
            "SparkSink to text files, proved",
            [_measure(lab, worker, folder_sink, lines) for _ in range(times)],
        ),
    ]
    offset = lines // 3
    _remove_line(target, offset)
    rates = [_measure(lab, worker, file_sink, lines, missing=offset) for _ in range(times)]
    return [*cases, _case("FileStreamSink, one missing line located", rates, wanted=Target())]


def _case(name: str, rates: list[float], wanted: Target | None = None) -> Case:
    return Case(name, "records/s", [], rates, more_is_better=True, wanted=wanted or Target(least=1_000_000))


def drain(lab: Lab, worker: Worker, config: Mapping[str, str], lines: int) -> str:
    """Create a sink and wait until it has written and committed all lines; return its name."""
    name = lab.new_name("proved")
    worker.rest.create(name, {"tasks.max": "1", **config})
    wait_until(
        f"{name} had committed all records",
        lambda: worker.rest.committed_offsets(name) == lines,
        timeout_s=600,
        program=worker.process,
    )
    return name


def _measure(lab: Lab, worker: Worker, sink: str, lines: int, missing: int | None = None) -> float:
    """Prove the delivery; return the records per second. Raises ScriptFailed for another result."""
    lab.settle()
    start_s = time.monotonic()
    state = worker.rest.prove(sink)
    seconds = time.monotonic() - start_s
    expected = [] if missing is None else [missing]
    if (
        state["result"] is None
        or [span["first"] for span in state["result"]["missing"]["offsets"]] != expected
    ):
        raise ScriptFailed(f"The proof of {sink} returned {state}.")
    say(f"{sink}: {state['state']} after {seconds:.2f} s")
    return lines / seconds


def _remove_line(path: Path, number: int) -> None:
    """Remove a line of a file whose lines have the same length."""
    start = number * LINE_BYTES_ON_DISK
    with path.open("r+b") as file:
        file.seek(start + LINE_BYTES_ON_DISK)
        later = file.read()
        file.seek(start)
        file.write(later)
        file.truncate()
