"""`churn`: 20 clients create, reconfigure and delete connectors without pause for 60 s; GETs of a status meanwhile.

Each worker has 104 idle connectors besides, and the other one is not there. Each client has a kept connection and one
connector at a time: POST, PUT of another config, DELETE, and the next. A 409, as while a group rebalances, is no
failure: the same is asked again at once. All clients are one process. This one asks for the status of an idle
connector over a connection of its own, every 10 ms, and counts from the moment at which a request was due.
"""

from __future__ import annotations

import itertools
import multiprocessing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scripts.bench.control.rest import create_idle, lab_name
from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Wanted
from scripts.harness.load import Load, Script, drive, paced, request
from scripts.harness.processes import ScriptFailed
from scripts.harness.workers import Worker

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

CLIENTS = 20
EVERY_S = 0.010
CLIENT_ERROR, CONFLICT, SERVER_ERROR = 400, 409, 500
MODES = ("standalone", "distributed")


@dataclass(frozen=True, slots=True)
class Churned:
    """What one worker did."""

    clients: Load
    statuses: Load

    def figures(self) -> tuple[float, ...]:
        """Return a figure for each row of the table."""
        changes = sum(count for status, count in self.clients.statuses.items() if status < CLIENT_ERROR)
        loads = (self.clients, self.statuses)
        errors = sum(n for load in loads for status, n in load.statuses.items() if status >= SERVER_ERROR)
        return (
            errors,
            max(each for load in loads for each in load.took) * 1000,
            self.statuses.percentile_ms(99),
            self.statuses.percentile_ms(50),
            changes / self.clients.seconds,
            self.clients.percentile_ms(99),
            self.clients.statuses.get(CONFLICT, 0),
        )


ROWS = (
    ("answers of 5xx", "answers", Wanted(limit=0)),
    ("  the slowest request of all", "ms", Wanted(limit=2000)),
    ("  GET status, 99th percentile", "ms", Wanted(limit=50)),
    ("  GET status, median", "ms", Wanted()),
    ("  changes made", "changes/s", Wanted()),
    ("  changes, 99th percentile", "ms", Wanted()),
    ("  answers of 409", "answers", Wanted()),
)


def run(lab: Lab) -> list[Case]:
    """Let clients loose on one worker after another."""
    cases = []
    for mode in MODES:
        results: dict[str, tuple[float, ...]] = {}
        for side in lab.options.sides:
            kind = lab_name(side, mode)
            worker = lab.started((kind,))[kind]
            create_idle(lab, worker)
            _churned(lab, worker, "warm-up", lab.options.times(10, 2))
            lab.settle()
            churned = _churned(lab, worker, "churn", lab.options.times(60, 5))
            results[side] = churned.figures()
            figures = ", ".join(f"{figure:,.4g}" for figure in results[side])
            say(f"{kind}: {figures}; clients {churned.clients.statuses}, GETs {churned.statuses.statuses}")
            worker.stop()
        cases += [
            Case(
                f"{mode}: {name}" if name == ROWS[0][0] else name,
                unit,
                [results["java"][place]] if "java" in results else [],
                [results["kraal"][place]] if "kraal" in results else [],
                more_is_better=unit == "changes/s",
                wanted=wanted,
            )
            for place, (name, unit, wanted) in enumerate(ROWS)
        ]
    return cases


def _churned(lab: Lab, worker: Worker, name: str, seconds: float) -> Churned:
    port, config = worker.rest.port, source_config(lab.file(1), lab.topic("churn"))
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_clients, args=(theirs, port, name, config, seconds), daemon=True)
    process.start()
    ours.recv()
    statuses = paced(port, "/connectors/idle-0/status", every_s=EVERY_S, seconds=seconds)
    theirs.close()
    try:
        clients: Load = ours.recv()
    except EOFError as exc:
        raise ScriptFailed("The clients ended with an error; see above.") from exc
    process.join()
    return Churned(clients, statuses)


def _clients(pipe: Connection, port: int, name: str, config: dict[str, str], seconds: float) -> None:
    pipe.send("ready")
    scripts = [_client(f"{name}-{number}", config) for number in range(CLIENTS)]
    pipe.send(drive(port, scripts, seconds))


def _client(name: str, config: dict[str, str]) -> Script:
    for number in itertools.count():
        connector = f"{name}-{number}"
        again = config | {"batch.size": "1000"}
        for message in (
            request("POST", "/connectors", {"name": connector, "config": config}),
            request("PUT", f"/connectors/{connector}/config", again),
            request("DELETE", f"/connectors/{connector}"),
        ):
            while True:
                answer = yield message
                if answer.status != CONFLICT:
                    break
            if CLIENT_ERROR <= answer.status < SERVER_ERROR:
                raise ScriptFailed(f"A change was answered by {answer.raw[:300]!r}")
