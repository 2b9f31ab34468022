"""Tests that values resolved by a config provider are used, but never stored, logged or returned.

Only the worker's user can access the worker's files, regardless of the umask.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import Pipe, create_topic

pytestmark = pytest.mark.ci

PASSWORD = "hunter2hunter2"  # noqa: S105 - for a test


def list_accessible(path: Path) -> list[Path]:
    """Return the paths in a directory that other users can access. A directory of mode 0700 protects its contents."""
    if not stat.S_IMODE(path.lstat().st_mode) & 0o077:
        return []
    children = sorted(path.iterdir()) if path.is_dir() else []
    return [path, *(path_below for child in children for path_below in list_accessible(child))]


def test_resolved_values_appear_only_where_they_are_used(
    make_worker: Callable[..., WorkerProcess], kafka: Broker, tmp_path: Path
) -> None:
    secret = tmp_path / "secrets" / "p.properties"
    secret.parent.mkdir()
    worker = make_worker(
        properties={
            "config.providers": "file",
            "config.providers.file.class": "FileConfigProvider",
            "config.providers.file.param.allowed.paths": str(secret.parent),
            "group.id": f"${{file:{secret}:password}}",
        }
    )
    pipe = Pipe(worker, tmp_path)
    secret.write_text(f"password={PASSWORD}\nfile={pipe.source_file}\ntopic={pipe.topic}\n")
    pipe.write(100)
    create_topic(kafka.bootstrap, pipe.topic)
    data = Path(f"{worker.offset_file}.kraal")
    data.mkdir(mode=0o755)
    old_umask = os.umask(0)
    try:
        worker.start()
    finally:
        os.umask(old_umask)
    config = {
        **pipe.source_config,
        "file": f"${{file:{secret}:file}}",
        "topic": f"${{file:{secret}:topic}}",
        "some.password": f"${{file:{secret}:password}}",
    }
    worker.create(pipe.source, config)
    worker.create(pipe.sink, pipe.sink_config)
    worker.wait_until("all lines were transferred", pipe.is_through_exactly)

    assert worker.get(f"/connectors/{pipe.source}/config").body == config
    [task] = worker.get(f"/connectors/{pipe.source}/tasks").body
    assert (task["config"]["file"], task["config"]["topic"]) == (config["file"], config["topic"])
    validation = worker.put(
        "/connector-plugins/FileStreamSource/config/validate", {**config, "tasks.max": PASSWORD}
    )
    assert PASSWORD not in json.dumps(validation.body)

    assert worker.put("/admin/loggers/kraal", {"level": "DEBUG"}).status == 200
    assert worker.get("/admin/loggers/kraal").body["level"] == "DEBUG"
    failing_config = {**pipe.sink_config, "name": "failing", "file": f"/no/such/${{file:{secret}:password}}"}
    worker.create("failing", failing_config)
    worker.wait_until("the task failed", lambda: worker.states("failing")[-1:] == ["FAILED"])
    trace = worker.get("/connectors/failing/status").body["tasks"][0]["trace"]
    assert "/no/such/[hidden]" in trace
    assert PASSWORD not in trace
    assert list_accessible(data) == [data]
    assert stat.S_IMODE(worker.offset_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(pipe.sink_file.stat().st_mode) == 0o666  # according to the umask of the worker's user
    warnings = [line for line in worker.log_text().splitlines() if "Other users have access to" in line]
    assert [f"{data} (mode 0755)" in line for line in warnings] == [True]
    assert worker.end() == 0

    assert PASSWORD not in worker.log_text()
    files = [path for path in data.rglob("*") if path.is_file()]
    assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []
