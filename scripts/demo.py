"""Sends a file through Spark into a Kafka topic and out into another file, controlled over Connect's REST API.

Starts a Kafka broker and `kraal standalone` with a FileStreamSource and a FileStreamSink, shows their progress,
compares both files, proves the delivery of the sink, and demonstrates a transform and a dead letter. It then runs
until Ctrl-C, with a dashboard that shows a data flow and a failed connector. On exit it stops all of its processes and
deletes its files.
With --cluster, several `kraal distributed` workers share the work, and one of them is killed meanwhile.
With --cdc, two workers capture the changes of a PostgreSQL table with Debezium's Java plugins and replicate them to
another database. One of the workers is killed meanwhile, and the demo exits by itself.
With --lake, the changes go to an Iceberg table and a Delta table, while the PostgreSQL table gets another column.
"""

from __future__ import annotations

import argparse
import inspect
import json
import socket
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kraal.broker.broker import HOST, Broker, free_port
from kraal.core import progress
from kraal.core.errors import KraalError
from kraal.proof.result import Verdict, format_lines
from scripts import demo_cdc, demo_cluster, demo_errors, demo_lake
from scripts.demo_dashboard import DashboardConnectors
from scripts.harness.lines import LINE_BYTES, LINE_BYTES_ON_DISK, count_lines, sha256, size, write_lines
from scripts.harness.processes import ScriptFailed, ignore_signals, interrupt_on_signals, wait_until
from scripts.harness.rest import is_fully_running
from scripts.harness.show import POLL_INTERVAL_S, Progress, format_table, say
from scripts.harness.topics import Reader
from scripts.harness.workers import START_TIMEOUT_S, Worker, kraal_standalone

TOPIC = "demo"
LINES = 1_000_000
SOURCE, SINK = "file-source", "file-sink"
REST_PORT = 8083
STALL_TIMEOUT_S = 120.0


@dataclass(slots=True)
class Flow:
    """The number of records that have passed one point, and their rate since the first record."""

    count: int = 0
    start_s: float = field(default_factory=time.monotonic)
    change_s: float = field(default_factory=time.monotonic)

    def update(self, count: int) -> None:
        """Record the current count."""
        now = time.monotonic()
        if self.count == count == 0:
            self.start_s = now
        if count != self.count:
            self.count, self.change_s = count, now

    @property
    def rate(self) -> float:
        """Records per second, from the last update with no records to the last change of the count."""
        return self.count / max(self.change_s - self.start_s, POLL_INTERVAL_S)


@dataclass(slots=True)
class Demo:
    """The running components, and the progress of the records."""

    directory: Path
    lines: int
    worker: Worker
    topic: Reader
    source_file: Path
    sink_file: Path
    records_in: Flow = field(default_factory=Flow)
    records_out: Flow = field(default_factory=Flow)

    def update_progress(self) -> None:
        """Read the progress of both connectors."""
        self.records_in.update(self.topic.end())
        self.records_out.update(size(self.sink_file) // LINE_BYTES_ON_DISK)
        self.records_out.start_s = self.records_in.start_s  # both rates are measured from the same start

    def transfer(self) -> None:
        """Wait until every line is in the sink file, and show the progress. Raises ScriptFailed."""
        with Progress() as display:
            while self.records_out.count < self.lines:
                self.update_progress()
                display.line(self._format_progress())
                if not self.worker.process.alive:
                    raise ScriptFailed(f"The worker exited: {self.worker.process.last_log_error()}")
                for status in self.worker.rest.statuses().values():
                    is_fully_running(status)  # raises for FAILED
                if (
                    time.monotonic() - max(self.records_in.change_s, self.records_out.change_s)
                    > STALL_TIMEOUT_S
                ):
                    raise ScriptFailed(f"No progress for {STALL_TIMEOUT_S:.0f} s: {self._format_progress()}.")
                time.sleep(POLL_INTERVAL_S)

    def _format_progress(self) -> str:
        into, out = self.records_in, self.records_out
        return (
            f"{into.count * 100 // self.lines:3d} % in Kafka: {into.count:,} records ({into.rate:,.0f}/s)   "
            f"{out.count * 100 // self.lines:3d} % in the sink file: {out.count:,} lines ({out.rate:,.0f}/s)"
        )

    def check(self) -> list[tuple[str, str]]:
        """Compare both files; return the rows to print. Raises ScriptFailed if they differ."""
        line_counts = {path: count_lines(path) for path in (self.source_file, self.sink_file)}
        checksums = {path: sha256(path) for path in line_counts}
        if len(set(line_counts.values())) != 1:
            raise ScriptFailed(
                f"The source file has {line_counts[self.source_file]:,} lines, but the sink file has"
                f" {line_counts[self.sink_file]:,}."
            )
        if len(set(checksums.values())) != 1:
            raise ScriptFailed("Both files have the same number of lines, but different contents.")
        into, out = self.records_in, self.records_out
        return [
            ("records in", f"{into.count:>12,}  file to Kafka, {into.rate:,.0f} records/s"),
            ("records out", f"{out.count:>12,}  Kafka to file, {out.rate:,.0f} records/s"),
            ("source file", f"{line_counts[self.source_file]:>12,}  lines, {self.source_file}"),
            ("sink file", f"{line_counts[self.sink_file]:>12,}  lines, {self.sink_file}"),
            ("contents", f"{'equal':>12}  sha256 {checksums[self.sink_file][:16]}..."),
            ("REST", self.worker.rest.url),
        ]

    def prove(self) -> None:
        """Prove that the sink has written all records. Raises ScriptFailed if it has not."""
        worker = self.worker
        wait_until(
            "all records were committed",
            lambda: worker.rest.committed_offsets(SINK) == self.lines,
            timeout_s=START_TIMEOUT_S,
            program=worker.process,
        )
        state = worker.rest.prove(SINK)
        if state["result"] is None:
            raise ScriptFailed(f"The proof failed: {state['reason']}")
        say(f"`kraal prove {SINK}` compares the sink file with the topic:")
        for line in format_lines(state):
            say(f"  {line}")
        if state["state"] != Verdict.PROVED:
            raise ScriptFailed("The sink file differs from the topic.")

    def keep_running(self) -> None:
        """Keep everything running until Ctrl-C. Raises ScriptFailed if the worker exits."""
        connectors = DashboardConnectors(self.worker, TOPIC, self.source_file, self.directory / "missing")
        say("")
        say("Everything keeps running.")
        connectors.create()
        say("In another terminal:")
        say(
            f"  echo 'one more line' >> {self.source_file} && sleep 1 && grep 'one more line' {self.sink_file}"
        )
        say(f"  curl -s {self.worker.rest.url}/connectors?expand=status")
        say(f"  curl -s -X PUT {self.worker.rest.url}/connectors/{SINK}/pause")
        say("Press Ctrl-C here to stop everything.")
        while self.worker.process.alive:
            connectors.append_lines()
            time.sleep(0.5)
        raise ScriptFailed(f"The worker exited: {self.worker.process.last_log_error()}")


def main() -> int:
    """Run the demo; return the exit code."""
    interrupt_on_signals()
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.lines is not None and arguments.lines < 1:
        parser.error("--lines must be at least 1")
    if arguments.cluster is not None and arguments.cluster < demo_cluster.MIN_WORKERS:
        parser.error(f"--cluster must be at least {demo_cluster.MIN_WORKERS}, because one worker is killed")
    if (arguments.cdc or arguments.lake) and arguments.lines is not None:
        parser.error("--lines cannot be used with --cdc and --lake, which copy a table")
    try:
        with ExitStack() as stack:
            try:
                _run(arguments, stack)
            finally:
                ignore_signals()
    except KeyboardInterrupt:
        say("Stopped; nothing is left running.")
        return 130
    except (KraalError, OSError) as exc:
        print(f"The demo failed: {exc}", file=sys.stderr)
        return 1
    say("Stopped; nothing is left running.")
    return 0


def _run(arguments: argparse.Namespace, stack: ExitStack) -> None:
    """Run the demo; `stack` stops everything that it starts."""
    port = _choose_rest_port(arguments.port)
    temporary_directory = tempfile.TemporaryDirectory(prefix="kraal-demo-", ignore_cleanup_errors=True)
    directory = Path(stack.enter_context(temporary_directory))
    if arguments.cdc:
        demo_cdc.run(port, directory, stack)
        return
    if arguments.lake:
        demo_lake.run(port, directory, stack)
        return
    if arguments.cluster:
        options = demo_cluster.Options(
            workers=arguments.cluster,
            lines=arguments.lines or demo_cluster.LINES,
            port=port,
            once=arguments.once,
        )
        demo_cluster.run(options, directory, stack)
        return
    lines = arguments.lines or LINES
    source_file, sink_file = directory / "source.txt", directory / "sink.txt"
    say(f"Writing {lines:,} lines of {LINE_BYTES} bytes to {source_file} ...")
    write_lines(source_file, lines)

    say("Starting a Kafka broker ...")
    broker = Broker(directory / "kafka", free_port())
    with progress.Progress("Starting Kafka"):
        broker.start()
    stack.callback(broker.stop)
    topic = Reader(broker.bootstrap, TOPIC)
    stack.callback(topic.close)

    say(f"Starting kraal standalone for Kafka on {broker.bootstrap} ...")
    connectors = _write_connector_files(directory, source_file, sink_file)
    worker = kraal_standalone(broker.bootstrap, directory / "worker", port=port, connectors=connectors)
    stack.callback(worker.stop)
    stack.callback(say, "Stopping the worker, Spark and Kafka ...")
    with progress.Progress("Starting the worker"):
        worker.wait_until_up()
    say(f"REST is available at {worker.rest.url}; records flow when Spark has started ...")
    demo = Demo(directory, lines, worker, topic, source_file, sink_file)
    demo.transfer()
    statuses = _wait_until_running(worker)
    rows = demo.check()
    say("")
    say(_format_statuses(statuses))
    say("")
    for name, text in rows:
        say(f"{name:12}{text}")
    say("")
    demo.prove()
    say("")
    demo_errors.run(broker.bootstrap, worker, directory)
    if not arguments.once:
        with suppress(KeyboardInterrupt):
            demo.keep_running()


def _choose_rest_port(requested: int | None) -> int:
    """Return the REST port: `requested`, or 8083, or a free port if 8083 is in use. Raises ScriptFailed."""
    port = REST_PORT if requested is None else requested or free_port()
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as exc:
            if requested:
                raise ScriptFailed(
                    f"Port {port} on {HOST} is not available ({exc.strerror}); choose another port with --port."
                ) from exc
            free = free_port()
            say(f"Port {port} is in use; REST will listen on {free}.")
            return free
    return port


def _write_connector_files(directory: Path, source_file: Path, sink_file: Path) -> tuple[Path, Path]:
    """Write one file with a request to create a connector, and one with only a config."""
    source: dict[str, Any] = {
        "name": SOURCE,
        "config": {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(source_file),
            "topic": TOPIC,
        },
    }
    sink = {
        "name": SINK,
        "connector.class": "FileStreamSink",
        "tasks.max": "1",
        "file": str(sink_file),
        "topics": TOPIC,
    }
    paths = directory / "source.json", directory / "sink.json"
    for path, content in zip(paths, (source, sink), strict=True):
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return paths


def _wait_until_running(worker: Worker) -> dict[str, dict[str, Any]]:
    """Wait until both connectors and their tasks are RUNNING; return their statuses."""

    def are_all_running() -> bool:
        statuses = worker.rest.statuses()
        return all(name in statuses and is_fully_running(statuses[name]) for name in (SOURCE, SINK))

    wait_until(
        "both connectors were RUNNING", are_all_running, timeout_s=START_TIMEOUT_S, program=worker.process
    )
    return worker.rest.statuses()


def _format_statuses(statuses: dict[str, dict[str, Any]]) -> str:
    rows = [("NAME", "TYPE", "STATE", "TASKS", "WORKER")]
    for name in (SOURCE, SINK):
        connector, tasks = statuses[name]["connector"], statuses[name]["tasks"]
        running = sum(task["state"] == "RUNNING" for task in tasks)
        kind, state = str(statuses[name]["type"]), str(connector["state"])
        rows.append((name, kind, state, f"{running}/{len(tasks)}", str(connector["worker_id"])))
    return format_table(rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description=inspect.getdoc(sys.modules[__name__]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--once", action="store_true", help="exit after the check, with 0 if it passed, or else with 1"
    )
    lines = f"number of lines (default: {LINES}, or {demo_cluster.LINES} with --cluster)"
    parser.add_argument("--lines", type=int, metavar="N", help=lines)
    cluster = "run N distributed workers and kill -9 one of them; a small machine can run 3"
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--cluster", type=int, metavar="N", help=cluster)
    cdc = "copy a PostgreSQL table with Debezium, and kill -9 one of two workers meanwhile"
    modes.add_argument("--cdc", action="store_true", help=cdc)
    lake = "copy a PostgreSQL table to an Iceberg and a Delta table, and kill -9 one of two workers meanwhile"
    modes.add_argument("--lake", action="store_true", help=lake)
    port = f"REST port; 0 selects a free port. Default: {REST_PORT}, or a free port if it is in use"
    parser.add_argument("--port", type=int, metavar="PORT", help=port)
    return parser


if __name__ == "__main__":
    sys.exit(main())
