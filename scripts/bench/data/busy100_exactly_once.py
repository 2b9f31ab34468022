"""`busy100-exactly-once`: 100 file connectors with ten lines a second each and exactly-once delivery.

The flow is that of `busy100`. The worker is a cluster of one worker with `exactly.once.source.support=enabled`, and the
consumer reads only committed records. A duplicate line fails the benchmark. The number of lines per transaction is
derived from the topics, because each transaction ends with a marker that occupies an offset.
"""

from __future__ import annotations

from scripts.bench.data import busy100
from scripts.bench.data.exactly_once import CONNECTOR_CONFIG, start_cluster
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
        flow = busy100.Flow(lab, worker, CONNECTOR_CONFIG, "read_committed")
        window = busy100.measure_window(lab, worker)
        received_lines = flow.close()
        cluster.stop()
        if received_lines.duplicates:
            raise ScriptFailed(f"{worker.name} delivered {received_lines.duplicates} duplicate lines.")
        values = busy100.figures(window.select(received_lines.lines), window.cores)
        rows[kind] = [*values, len(received_lines.lines) / received_lines.transactions]
        say(f"{kind}: " + ", ".join(f"{figure:,.4g}" for figure in rows[kind]))
    return busy100.cases(ROWS, rows)
