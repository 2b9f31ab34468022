"""Tests that run `./scripts/demo` as a user does, with fewer lines."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
LINE_COUNT = 20_000
TIMEOUT_S = 150.0
CDC_TIMEOUT_S = 360.0


def command(*arguments: str) -> list[str]:
    """Return the command line of `scripts/demo`, or of its module if this is not the repository's environment."""
    if Path(sys.prefix) == ROOT / ".venv":
        return [str(ROOT / "scripts" / "demo"), *arguments]
    return [sys.executable, "-m", "scripts.demo", *arguments]


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """Yield the demo's temporary directory. After the test, it must be empty, and no process may use it."""
    yield tmp_path
    assert_no_leftovers(tmp_path)


@pytest.fixture
def accessible_scratch() -> Iterator[Path]:
    """Yield a temporary directory that all users may enter, because PostgreSQL does not run as root."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)
        assert_no_leftovers(Path(directory))


def assert_no_leftovers(directory: Path) -> None:
    assert list(directory.iterdir()) == []
    assert [p.pid for p in psutil.process_iter() if str(directory) in " ".join(read_arguments(p))] == []


def read_arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def run(scratch: Path, *arguments: str, timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(scratch)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def extract_error_section(text: str) -> str:
    """Return the output about the transform and the dead letter, without times."""
    section = text.partition("A transform and a dead letter: ")[2].partition("Stopping the worker")[0]
    assert section
    return re.sub(r"(orders-dead-0@0 +)\S+ \S+", r"\1TIME", section)


def test_once_exits_with_running_connectors_and_equal_files(scratch: Path) -> None:
    result = run(scratch, "--once", "--lines", str(LINE_COUNT), "--port", "0")
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"^NAME +TYPE +STATE +TASKS +WORKER$", result.stdout, flags=re.MULTILINE)
    assert re.search(
        r"^file-source +source +RUNNING +1/1 +127\.0\.0\.1:\d+$", result.stdout, flags=re.MULTILINE
    )
    assert re.search(r"^file-sink +sink +RUNNING +1/1 +127\.0\.0\.1:\d+$", result.stdout, flags=re.MULTILINE)
    for label in ("records in", "records out", "source file", "sink file"):
        assert re.search(rf"^{label} +{LINE_COUNT:,}  ", result.stdout, flags=re.MULTILINE), label
    assert re.search(r"^contents +equal ", result.stdout, flags=re.MULTILINE)
    assert re.search(r"^REST +http://127\.0\.0\.1:\d+$", result.stdout, flags=re.MULTILINE)
    proof = rf"proved up to demo-0@{LINE_COUNT:,} \(\S+ \S+ UTC\): 0 missing, 0 repeated, 0 unexpected\n"
    assert re.search(rf"^`kraal prove file-sink` .*:\n  {proof}", result.stdout, flags=re.MULTILINE)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert extract_error_section(result.stdout) == extract_error_section(readme), (
        "the README must show this output"
    )


@pytest.mark.slow
def test_cluster_delivers_every_line_after_losing_a_worker(scratch: Path) -> None:
    result = run(scratch, "--cluster", "3", "--once", "--lines", "6000", "--port", "0")
    assert result.returncode == 0, result.stdout + result.stderr
    output = re.sub(r"127\.0\.0\.1:\d+", "WORKER", result.stdout)
    assert len(re.findall(r"^WORKER +\d+ +Ready +(?:leader|follower) +4$", output, flags=re.MULTILINE)) == 3
    assert re.search(r"^WORKER +\d+ +Killed +- +0$", output, flags=re.MULTILINE)
    assert len(re.findall(r"^WORKER +\d+ +Ready +(?:leader|follower) +6$", output, flags=re.MULTILINE)) == 2
    assert (
        len(re.findall(r"^file-\d-\S+ +(?:connector|task) +WORKER +WORKER$", output, flags=re.MULTILINE)) == 4
    )
    assert (
        len(re.findall(r"^file-\d-\S+ +(?:connector|task) +WORKER +stays$", output, flags=re.MULTILINE)) == 8
    )
    assert re.search(
        r"the group detected the loss .* generation \d+ has 2 workers$", output, flags=re.MULTILINE
    )
    assert len(re.findall(r"^file-\d +2,000 +[\d,]+ +0 +[\d,]+$", output, flags=re.MULTILINE)) == 3


@pytest.mark.ci
def test_cdc_replicates_a_table_after_losing_the_source_worker(accessible_scratch: Path) -> None:
    result = run(accessible_scratch, "--cdc", "--port", "0", timeout_s=CDC_TIMEOUT_S)
    assert result.returncode == 0, result.stdout + result.stderr
    output = re.sub(r"127\.0\.0\.1:\d+", "WORKER", result.stdout)
    assert re.search(
        r"^POST http://WORKER/connectors: shop-source is a PostgresConnector$", output, re.MULTILINE
    )
    assert re.search(
        r"^POST http://WORKER/connectors: copy-sink is a JdbcSinkConnector$", output, re.MULTILINE
    )
    for name in ("shop-source", "copy-sink"):
        assert re.search(rf"^{name} +connector +RUNNING +WORKER$", output, re.MULTILINE)
        assert re.search(rf"^{name}-0 +task +RUNNING +WORKER$", output, re.MULTILINE)
    first, _, later = output.partition("\nThe initial rows of shop are in copy:\n")[2].partition("\n\n")
    assert parse_rows(first) == [["ID", "NAME", "CITY"], ["1", "Anna", "Oslo"], ["2", "Ben", "Rome"]]
    assert re.search(r"^INSERT INTO customers .*: copied after [\d.]+ s$", later, re.MULTILINE)
    assert re.search(r"^UPDATE customers .*: copied after [\d.]+ s$", later, re.MULTILINE)
    assert re.search(r"^kill -9 \d+: WORKER, .* the task of shop-source \.\.\.$", later, re.MULTILINE)
    assert re.search(r"^shop-source-0 +task +WORKER +WORKER$", later, re.MULTILINE)
    assert re.search(r"the group detected the loss .* generation \d+ has 1 worker$", later, re.MULTILINE)
    assert re.search(r"^ +\+[\d.]+ s +the change is in the second database$", later, re.MULTILINE)
    assert re.search(r"^WORKER +\d+ +Killed +- +0$", later, re.MULTILINE)
    assert re.search(r"^WORKER +\d+ +Ready +leader +4$", later, re.MULTILINE)
    last = later.partition("\nEvery change of shop is in copy:\n")[2].partition("\nStopping")[0]
    assert parse_rows(last)[1:] == [["1", "Anna", "Bergen"], ["2", "Ben", "Milan"], ["3", "Cleo", "Cairo"]]


@pytest.mark.ci
def test_lake_tables_equal_the_database_after_losing_the_source_worker(accessible_scratch: Path) -> None:
    result = run(accessible_scratch, "--lake", "--port", "0", timeout_s=CDC_TIMEOUT_S)
    assert result.returncode == 0, result.stdout + result.stderr
    output = re.sub(r"127\.0\.0\.1:\d+", "WORKER", result.stdout)
    for name, connector in (
        ("shop-source", "PostgresConnector"),
        ("orders-iceberg", "IcebergSink"),
        ("orders-delta", "DeltaSink"),
    ):
        assert re.search(rf"^POST http://WORKER/connectors: {name} is a {connector}$", output, re.MULTILINE)
    assert re.search(
        r"^ALTER TABLE orders ADD COLUMN note text: after \d+ transactions$", output, re.MULTILINE
    )
    assert re.search(r"^kill -9 \d+: WORKER, .* the task of shop-source \.\.\.$", output, re.MULTILINE)
    assert re.search(r"^shop-source-0 +task +WORKER +WORKER$", output, re.MULTILINE)
    last = output.partition("\nAll tables are equal:\n")[2].partition("\nStopping")[0]
    header, *rows = [re.split(r" {2,}", line.strip()) for line in last.splitlines()]
    assert header == ["TABLE", "ROWS", "SHA-256"]
    assert [row[0] for row in rows] == ["orders in PostgreSQL", "Iceberg table", "Delta table"]
    assert len({tuple(row[1:]) for row in rows}) == 1, last
    assert int(rows[0][1].replace(",", "")) > 1000


def parse_rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


@pytest.mark.ci
def test_demo_runs_until_ctrl_c_and_stops_all_processes(scratch: Path) -> None:
    with subprocess.Popen(
        command("--lines", "1000", "--port", "0"),
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(scratch)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        try:
            output = []
            for line in demo.stdout:
                output.append(line)
                if line.startswith("Press Ctrl-C"):
                    break
            dashboard = "".join(output).partition("The dashboard: ")[2].split()[0]
            page = httpx2.get(dashboard, timeout=30).text
            demo.send_signal(signal.SIGINT)
            remaining_output, _ = demo.communicate(timeout=240)
        finally:
            demo.terminate()
    assert demo.returncode == 0, "".join(output)
    assert "nothing is left running" in remaining_output
    assert "file-source" in page
    assert "FileNotFoundError" in page, "the dashboard must show why the task of broken-sink failed"


def test_port_in_use_is_reported(scratch: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        result = run(scratch, "--once", "--port", str(port))
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == (
        f"The demo failed: Port {port} on 127.0.0.1 is not available (Address already in use);"
        " choose another port with --port.\n"
    )
