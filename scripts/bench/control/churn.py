"""`churn`: 20 clients create, reconfigure and delete connectors for 60 s without pause; GETs of a status meanwhile.

Only one worker runs at a time, with 104 additional idle connectors. Each client has a persistent connection. It creates
a connector (POST), changes its config (PUT), deletes it (DELETE), and continues with the next one. A 409, as during a
rebalance, is not a failure; the request is retried immediately. All clients share one process. Meanwhile, this process
requests the status of an idle connector every 10 ms, over a separate connection. These response times start at the time
for which the request was scheduled.
"""

from __future__ import annotations

import itertools
import multiprocessing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scripts.bench.control.rest import create_idle, worker_kind
from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Target
from scripts.harness.load import LoadResult, Script, request, run_scripts, send_paced_gets
from scripts.harness.processes import ScriptFailed
from scripts.harness.workers import Worker

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

CLIENTS = 20
INTERVAL_S = 0.010
CLIENT_ERROR, CONFLICT, SERVER_ERROR = 400, 409, 500
MODES = ("standalone", "distributed")


@dataclass(frozen=True, slots=True)
class ChurnResult:
    """The results of one worker."""

    clients: LoadResult
    statuses: LoadResult

    def figures(self) -> tuple[float, ...]:
        """Return the value of each row of the table."""
        changes = sum(count for status, count in self.clients.statuses.items() if status < CLIENT_ERROR)
        loads = (self.clients, self.statuses)
        errors = sum(n for load in loads for status, n in load.statuses.items() if status >= SERVER_ERROR)
        return (
            errors,
            max(duration_s for load in loads for duration_s in load.durations_s) * 1000,
            self.statuses.percentile_ms(99),
            self.statuses.percentile_ms(50),
            changes / self.clients.seconds,
            self.clients.percentile_ms(99),
            self.clients.statuses.get(CONFLICT, 0),
        )


ROWS = (
    ("5xx responses", "responses", Target(limit=0)),
    ("  slowest request", "ms", Target(limit=2000)),
    ("  GET status, 99th percentile", "ms", Target(limit=50)),
    ("  GET status, median", "ms", Target()),
    ("  change rate", "changes/s", Target()),
    ("  change latency, 99th percentile", "ms", Target()),
    ("  409 responses", "responses", Target()),
)


def run(lab: Lab) -> list[Case]:
    """Run the clients against one worker after another."""
    cases = []
    for mode in MODES:
        results: dict[str, tuple[float, ...]] = {}
        for side in lab.options.sides:
            kind = worker_kind(side, mode)
            worker = lab.start_warm((kind,))[kind]
            create_idle(lab, worker)
            _measure_churn(lab, worker, "warm-up", lab.options.times(10, 2))
            lab.settle()
            result = _measure_churn(lab, worker, "churn", lab.options.times(60, 5))
            results[side] = result.figures()
            figures = ", ".join(f"{figure:,.4g}" for figure in results[side])
            say(f"{kind}: {figures}; clients {result.clients.statuses}, GETs {result.statuses.statuses}")
            worker.stop()
        cases += [
            Case(
                f"{mode}: {name}" if name == ROWS[0][0] else name,
                unit,
                [results["java"][index]] if "java" in results else [],
                [results["kraal"][index]] if "kraal" in results else [],
                more_is_better=unit == "changes/s",
                wanted=wanted,
            )
            for index, (name, unit, wanted) in enumerate(ROWS)
        ]
    return cases


def _measure_churn(lab: Lab, worker: Worker, name: str, seconds: float) -> ChurnResult:
    port, config = worker.rest.port, source_config(lab.file(1), lab.topic("churn"))
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe()
    process = context.Process(target=_run_clients, args=(sender, port, name, config, seconds), daemon=True)
    process.start()
    receiver.recv()
    statuses = send_paced_gets(port, "/connectors/idle-0/status", every_s=INTERVAL_S, seconds=seconds)
    sender.close()
    try:
        clients: LoadResult = receiver.recv()
    except EOFError as exc:
        raise ScriptFailed("The client process failed; see its error above.") from exc
    process.join()
    return ChurnResult(clients, statuses)


def _run_clients(pipe: Connection, port: int, name: str, config: dict[str, str], seconds: float) -> None:
    pipe.send("ready")
    scripts = [_client_script(f"{name}-{number}", config) for number in range(CLIENTS)]
    pipe.send(run_scripts(port, scripts, seconds))


def _client_script(name: str, config: dict[str, str]) -> Script:
    for number in itertools.count():
        connector = f"{name}-{number}"
        new_config = config | {"batch.size": "1000"}
        for message in (
            request("POST", "/connectors", {"name": connector, "config": config}),
            request("PUT", f"/connectors/{connector}/config", new_config),
            request("DELETE", f"/connectors/{connector}"),
        ):
            while True:
                response = yield message
                if response.status != CONFLICT:
                    break
            if CLIENT_ERROR <= response.status < SERVER_ERROR:
                raise ScriptFailed(f"A change failed: {response.raw[:300]!r}")
