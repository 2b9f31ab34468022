"""`busy100-exactly-once`: 100 file connectors, ten lines a second for each, with exactly-once delivery.

The flow is that of `busy100`; the worker is a cluster of its own with `exactly.once.source.support=enabled`, and the
consumer reads only what is committed. A line that comes twice fails the benchmark. How many lines a transaction has is
taken from the topics: each transaction ends with a marker that takes an offset.
"""

from __future__ import annotations

from scripts.bench.data import busy100
from scripts.bench.data.exactly_once import CONNECTOR, started
from scripts.bench.lab import Lab, say
from scripts.bench.report import Case, Wanted
from scripts.harness.processes import ScriptFailed

ROWS: tuple[busy100.Row, ...] = (
    *((name, unit, Wanted(limit=0.6) if unit == "cores" else Wanted()) for name, unit, _ in busy100.ROWS),
    ("  lines in a transaction, mean", "lines", Wanted()),
)


def run(lab: Lab) -> list[Case]:
    """Let lines flow through one worker after another."""
    rows: dict[str, list[float]] = {}
    for kind in lab.options.sides:
        cluster = started(lab, kind)
        worker = cluster.workers[0]
        flow = busy100.Flow(lab, worker, CONNECTOR, "read_committed")
        window = busy100.measured(lab, worker)
        came = flow.close()
        cluster.stop()
        if came.repeated:
            raise ScriptFailed(f"{worker.name} delivered {came.repeated} lines more than once.")
        values = busy100.figures(window.of(came.lines), window.cores)
        rows[kind] = [*values, len(came.lines) / came.transactions]
        say(f"{kind}: " + ", ".join(f"{figure:,.4g}" for figure in rows[kind]))
    return busy100.cases(ROWS, rows)
