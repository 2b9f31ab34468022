"""Tests that killing JVMs and workers with Java plugins loses no records and leaves no tasks running."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import (
    RUNNING,
    append,
    faulty_config,
    plugin_jvm,
    plugin_jvms,
    read_numbers,
    source_config,
    unique_name,
    wait_for_more,
    wait_for_plugins,
    wait_for_values,
)

pytestmark = pytest.mark.ci


def test_tasks_continue_in_a_new_jvm(cluster: ProcessCluster, tmp_path: Path) -> None:
    name, file = unique_name("killed"), tmp_path / "in.txt"
    append(file, "one")
    worker = cluster.alive[0]
    cluster.create(name, source_config(file, name))
    wait_for_values(cluster, name, ["one"])
    worker.wait_until(
        "the offset was stored", lambda: bool(worker.get(f"/connectors/{name}/offsets").body["offsets"])
    )
    plugin_jvm(worker).kill()
    append(file, "two")
    wait_for_values(cluster, name, ["one", "two"])
    worker.wait_for_states(name, RUNNING)
    cluster.delete(name)


@pytest.mark.slow
def test_paused_task_stays_paused_in_a_new_jvm(cluster: ProcessCluster) -> None:
    name, worker = unique_name("paused"), cluster.alive[0]
    cluster.create(name, faulty_config(name))
    worker.wait_for_states(name, RUNNING)
    cluster.pause(name)
    worker.wait_for_states(name, ["PAUSED", "PAUSED"])
    ready_count = worker.log_text().count("Java plugins are ready")
    plugin_jvm(worker).kill()
    worker.wait_until(
        "a new JVM was ready", lambda: worker.log_text().count("Java plugins are ready") > ready_count
    )
    worker.wait_for_states(name, ["PAUSED", "PAUSED"])
    values = cluster.values(name)
    time.sleep(1)  # a running task would write 100 numbers in this time
    assert cluster.values(name) == values
    cluster.resume(name)
    wait_for_more(cluster, name)
    cluster.delete(name)


def test_stopped_source_commits_no_offsets(cluster: ProcessCluster) -> None:
    name, worker = unique_name("stopped"), cluster.alive[0]
    cluster.create(name, faulty_config(name))
    worker.wait_for_states(name, RUNNING)
    wait_for_more(cluster, name)
    cluster.restart(name)
    wait_for_more(cluster, name)
    cluster.stop(name)
    worker.wait_for_states(name, ["STOPPED"])
    path = f"/connectors/{name}/offsets"
    altered_offsets = {"offsets": [{"partition": {"id": "0"}, "offset": {"next": 7}}]}
    response = worker.ask("PATCH", path, altered_offsets)
    assert response.status == 200, response
    time.sleep(2)  # four commit intervals
    assert worker.get(path).body == altered_offsets
    cluster.delete(name)


def test_kills_lose_no_records(cluster: ProcessCluster) -> None:
    name = unique_name("counted")
    worker = cluster.alive[0]
    cluster.create(name, faulty_config(name))
    worker.wait_for_states(name, RUNNING)
    for _ in range(2):
        wait_for_more(cluster, name)
        plugin_jvm(worker).kill()
    wait_for_more(cluster, name)
    values = read_numbers(cluster, name)
    assert set(values) == set(range(max(values) + 1))
    cluster.delete(name)


def test_jvms_exit_when_their_worker_is_killed(
    kafka: Broker, tmp_path: Path, worker_properties: dict[str, str]
) -> None:
    properties = worker_properties | {"plugins.jvm": "own"}
    with ProcessCluster(1, directory=tmp_path, bootstrap=kafka.bootstrap, properties=properties) as cluster:
        worker, name = cluster.alive[0], unique_name("own")
        wait_for_plugins(worker)
        cluster.create(name, faulty_config(name))
        worker.wait_until("the JVMs were running", lambda: plugin_jvms(worker).keys() == {"", name})
        jvms = list(plugin_jvms(worker).values())
        worker.kill()
        _, remaining = psutil.wait_procs(jvms, 60)
        assert remaining == []


@pytest.mark.parametrize("jvm", ["shared", pytest.param("own", marks=pytest.mark.slow)])
def test_tasks_of_a_frozen_worker_stop_and_continue_when_it_resumes(
    kafka: Broker, tmp_path: Path, worker_properties: dict[str, str], jvm: str
) -> None:
    properties = worker_properties | {"plugins.jvm": jvm}
    with ProcessCluster(1, directory=tmp_path, bootstrap=kafka.bootstrap, properties=properties) as cluster:
        worker, name = cluster.alive[0], unique_name("frozen")
        wait_for_plugins(worker)
        cluster.create(name, faulty_config(name))
        worker.wait_for_states(name, RUNNING)
        cluster.freeze_worker(0)
        deadline, count = time.monotonic() + 30, -1
        while (new_count := len(cluster.records(name))) != count and time.monotonic() < deadline:
            count = new_count
            time.sleep(2)  # a task that is still running would write 200 records in this time
        assert new_count == count
        cluster.thaw_worker(0)
        wait_for_more(cluster, name)
        values = read_numbers(cluster, name)
        assert set(values) == set(range(max(values) + 1))


def test_connector_continues_after_moving_between_java_and_kraal_workers(
    kafka: Broker, tmp_path: Path, worker_properties: dict[str, str]
) -> None:
    name, file = unique_name("moves"), tmp_path / "in.txt"
    with MixedCluster(
        0, directory=tmp_path / "group", bootstrap=kafka.bootstrap, properties=worker_properties
    ) as cluster:
        java_worker = cluster.start_java()
        append(file, "by java")
        cluster.create(name, source_config(file, name))
        java_worker.wait_for_states(name, RUNNING)
        wait_for_values(cluster, name, ["by java"])
        kraal_worker = cluster.start_kraal()
        java_worker.end()
        append(file, "by kraal")
        wait_for_values(cluster, name, ["by java", "by kraal"])
        kraal_worker.wait_for_states(name, RUNNING)
        cluster.start_java()
        kraal_worker.end()
        append(file, "by java again")
        wait_for_values(cluster, name, ["by java", "by kraal", "by java again"])
