"""Tests for the client in a separate process with a real worker, from config files to flowing records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import Pipe, create_topic

ROOT = Path(__file__).parents[3]
Result = subprocess.CompletedProcess[str]


@pytest.fixture
def run_kraal(worker: WorkerProcess) -> Callable[..., Result]:
    def run(*arguments: str, code: int = 0) -> Result:
        result = subprocess.run(
            [sys.executable, "-c", "from kraal.cli.main import main; main(prog_name='kraal')", *arguments],
            env=os.environ | {"PYTHONPATH": str(ROOT), "KRAAL_URL": worker.url},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert result.returncode == code, result.stdout + result.stderr
        return result

    return run


def test_directory_of_files_is_applied_and_runs(
    run_kraal: Callable[..., Result], worker: WorkerProcess, kafka: Broker, tmp_path: Path
) -> None:
    pipe = Pipe(worker, tmp_path)
    create_topic(kafka.bootstrap, pipe.topic)
    pipe.write(100)
    files = tmp_path / "connectors"
    files.mkdir()
    (files / "source.json").write_text(json.dumps({"name": pipe.source, "config": pipe.source_config}))
    lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in pipe.sink_config.items())
    (files / "sink.yaml").write_text(lines)

    assert run_kraal("diff", "-f", str(files), code=1).stdout.startswith("--- /dev/null")
    apply_result = run_kraal("apply", "-f", str(files), "--wait")
    expected = [
        f"{pipe.sink} created",
        f"{pipe.source} created",
        f"{pipe.sink} is RUNNING",
        f"{pipe.source} is RUNNING",
    ]
    assert sorted(apply_result.stdout.splitlines()) == sorted(expected)
    worker.wait_until("all lines were transferred", pipe.is_through_exactly)
    second_output = run_kraal("apply", "-f", str(files)).stdout
    assert second_output == f"{pipe.sink} unchanged\n{pipe.source} unchanged\n"
    assert run_kraal("diff", "-f", str(files)).stdout == ""

    run_kraal("pause", pipe.source, "--wait")
    assert pipe.states()[:2] == ["PAUSED", "PAUSED"]
    run_kraal("resume", pipe.source, "--wait")
    run_kraal("restart", pipe.source, pipe.sink, "--tasks", "--wait")
    statuses = json.loads(run_kraal("status", pipe.source, "-o", "json").stdout)
    assert statuses == [worker.get(f"/connectors/{pipe.source}/status").body]
    assert pipe.topic in run_kraal("topics", pipe.sink).stdout

    delete_output = run_kraal("delete", "-f", str(files)).stdout
    assert delete_output == f"{pipe.sink} deleted\n{pipe.source} deleted\n"
    assert "not found" in run_kraal("describe", pipe.source, code=1).stderr
