"""`busy100-exactly-once`: 100 file connectors with ten lines a second each and exactly-once delivery.

The flow is that of `busy100`; the worker is a cluster of its own with `exactly.once.source.support=enabled`, and the
consumer reads only committed records. A duplicate line fails the benchmark. The number of lines per transaction is
derived from the topics, because each transaction ends with a marker that occupies an offset.
"""

from __future__ import annotations

from scripts.bench.data import busy100
from scripts.bench.data.exactly_once import CONNECTOR, start_cluster
from scripts.bench.lab import Lab, say
from scripts.bench.report import Case, Target
from scripts.harness.processes import ScriptFailed

ROWS: tuple[busy100.Row, ...] = (
    *((name, unit, Target(limit=0.6) if unit == "cores" else Target()) for name, unit, _ in busy100.ROWS),
    ("  lines per transaction, mean", "lines", Target()),
)


def run(lab: Lab) -> list[Case]:
    """Measure one worker after another."""
    rows: dict[str, list[float]] = {}
    for kind in lab.options.sides:
        cluster = start_cluster(lab, kind)
        worker = cluster.workers[0]
        flow = busy100.Flow(lab, worker, CONNECTOR, "read_committed")
        window = busy100.measure_window(lab, worker)
        received = flow.close()
        cluster.stop()
        if received.repeated:
            raise ScriptFailed(f"{worker.name} delivered {received.repeated} lines more than once.")
        values = busy100.figures(window.select(received.lines), window.cores)
        rows[kind] = [*values, len(received.lines) / received.transactions]
        say(f"{kind}: " + ", ".join(f"{figure:,.4g}" for figure in rows[kind]))
    return busy100.cases(ROWS, rows)
