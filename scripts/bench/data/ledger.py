"""`ledger`: rates and processor time without and with a ledger; Kraal only.

Two workers are up and warm; the second one has a ledger. Rates are measured as in `source`, `transforms`, `sink` and
`java-plugins`, alternately on both workers, with default settings. Processor time is measured as in `busy100`, one
worker after the other. The ratio compares the second worker with the first; for rates, it is the median of the rounds'
ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.bench.data.busy100 import Flow, measure_window
from scripts.bench.data.java_plugins import SINK, SOURCE, create_plugin_path, start_worker
from scripts.bench.data.sink import drain
from scripts.bench.data.source import transfer
from scripts.bench.data.transforms import CHAIN
from scripts.bench.lab import Lab, measure_alternately, say, sink_config
from scripts.bench.report import Case, Target
from scripts.harness.lines import LINE_BYTES_ON_DISK, size
from scripts.harness.workers import Worker

COLUMNS = ("without a ledger", "with a ledger")
RATE = Target(ratio=0.97)
CORES = Target(ratio=0.95)
_ROUNDS = 12
_FILE_KEY, _TOPIC_KEY = "ledger.storage.file.filename", "ledger.storage.topic"

Measure = Callable[[str, Worker], list[float]]


def run(lab: Lab) -> list[Case]:
    """Measure rates of connectors in Python and in Java, and the cores of small flows."""
    lines = lab.options.lines()
    file = lab.file(lines)
    cases = _measure_rates(
        lab,
        {name: _start_warm(lab, name) for name in COLUMNS},
        {
            "FileStreamSource": _measure_source(lab, file, lines, {}),
            "FileStreamSource with transforms and JsonConverter": _measure_source(lab, file, lines, CHAIN),
            "FileStreamSink": _measure_sink(lab, file, lines, {}),
        },
    )
    path = {"plugin.path": str(create_plugin_path(lab.directory))}
    settings = {COLUMNS[0]: path, COLUMNS[1]: {**path, _TOPIC_KEY: "ledger"}}
    cases += _measure_rates(
        lab,
        {name: start_worker(lab, "kraal", settings[name]) for name in COLUMNS},
        {
            "Java's FileStreamSource": _measure_source(lab, file, lines, SOURCE),
            "Java's FileStreamSink": _measure_sink(lab, file, lines, SINK),
        },
    )
    without, with_ledger = ([_measure_cores(lab, name)] for name in COLUMNS)
    return [*cases, Case("100 small flows", "cores", without, with_ledger, wanted=CORES)]


def _start_warm(lab: Lab, name: str) -> Worker:
    """Start a standalone worker, and warm it up."""
    say(f"starting and warming up: {name}")
    worker = lab.start("kraal", _make_settings(lab, name))
    worker.wait_until_up()
    lab.warm_up(worker)
    return worker


def _make_settings(lab: Lab, name: str) -> dict[str, str]:
    return {_FILE_KEY: str(lab.directory / lab.new_name("ledger"))} if name == COLUMNS[1] else {}


def _measure_rates(lab: Lab, workers: Mapping[str, Worker], measures: Mapping[str, Measure]) -> list[Case]:
    """Return a case for each measure, and stop the workers."""
    cases = []
    for name, measure in measures.items():
        say(name)
        measure_alternately(workers, lab.options.times(1, 0), measure)
        rows = measure_alternately(workers, lab.options.times(_ROUNDS, 1), measure)
        without, with_ledger = ([row[0] for row in rows[column]] for column in COLUMNS)
        cases.append(
            Case(name, "records/s", without, with_ledger, more_is_better=True, wanted=RATE, is_paired=True)
        )
    for worker in workers.values():
        worker.stop()
    return cases


def _measure_source(lab: Lab, file: Path, lines: int, config: Mapping[str, str]) -> Measure:
    def measure(_: str, worker: Worker) -> list[float]:
        seconds, _from_create = transfer(lab, worker, file, lab.topic("ledger-source"), lines, config)
        return [lines / seconds]

    return measure


def _measure_sink(lab: Lab, file: Path, lines: int, config: Mapping[str, str]) -> Measure:
    """Return a function that measures the sink with a topic that the first call fills."""
    topics: list[str] = []

    def measure(_: str, worker: Worker) -> list[float]:
        if not topics:
            topics.append(lab.topic("ledger-sink"))
            transfer(lab, worker, file, topics[0], lines, SOURCE if config else {})
        out = lab.directory / lab.new_name("out")
        seconds = drain(
            lab,
            worker,
            sink_config(out, topics[0]) | dict(config),
            lambda: size(out),
            lines * LINE_BYTES_ON_DISK,
        )
        out.unlink()
        return [lines / seconds]

    return measure


def _measure_cores(lab: Lab, name: str) -> float:
    """Return the cores that a worker uses for small flows."""
    worker = _start_warm(lab, name)
    flow = Flow(lab, worker)
    window = measure_window(lab, worker)
    flow.close()
    worker.stop()
    return window.cores
