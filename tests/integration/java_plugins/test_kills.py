"""Kills of what Java plugins run in: nothing is lost, and nothing goes on that should not."""

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
    a_name,
    append,
    faulty_config,
    numbers,
    plugin_jvm,
    plugin_jvms,
    source_config,
    wait_for_more,
    wait_for_plugins,
    wait_for_values,
)

pytestmark = pytest.mark.ci


def test_tasks_continue_in_a_new_jvm(cluster: ProcessCluster, tmp_path: Path) -> None:
    name, file = a_name("killed"), tmp_path / "in.txt"
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


def test_a_paused_task_stays_paused_in_a_new_jvm(cluster: ProcessCluster) -> None:
    name, worker = a_name("paused"), cluster.alive[0]
    cluster.create(name, faulty_config(name))
    worker.wait_for_states(name, RUNNING)
    cluster.pause(name)
    worker.wait_for_states(name, ["PAUSED", "PAUSED"])
    ready = worker.log_text().count("Java plugins are ready")
    plugin_jvm(worker).kill()
    worker.wait_until(
        "a new JVM was ready", lambda: worker.log_text().count("Java plugins are ready") > ready
    )
    worker.wait_for_states(name, ["PAUSED", "PAUSED"])
    seen = cluster.values(name)
    time.sleep(1)  # a task that ran would write 100 numbers in this time
    assert cluster.values(name) == seen
    cluster.resume(name)
    wait_for_more(cluster, name)
    cluster.delete(name)


def test_a_stopped_source_commits_no_more(cluster: ProcessCluster) -> None:
    name, worker = a_name("stopped"), cluster.alive[0]
    cluster.create(name, faulty_config(name))
    worker.wait_for_states(name, RUNNING)
    wait_for_more(cluster, name)
    cluster.restart(name)
    wait_for_more(cluster, name)
    cluster.stop(name)
    worker.wait_for_states(name, ["STOPPED"])
    path = f"/connectors/{name}/offsets"
    chosen = {"offsets": [{"partition": {"id": "0"}, "offset": {"next": 7}}]}
    answer = worker.request("PATCH", path, chosen)
    assert answer.status == 200, answer
    time.sleep(2)  # four intervals of commits
    assert worker.get(path).body == chosen
    cluster.delete(name)


def test_no_number_is_lost_by_kills(cluster: ProcessCluster) -> None:
    name = a_name("counted")
    worker = cluster.alive[0]
    cluster.create(name, faulty_config(name))
    worker.wait_for_states(name, RUNNING)
    for _ in range(2):
        wait_for_more(cluster, name)
        plugin_jvm(worker).kill()
    wait_for_more(cluster, name)
    found = numbers(cluster, name)
    assert set(found) == set(range(max(found) + 1))
    cluster.delete(name)


def test_a_killed_worker_takes_its_jvms_along(
    kafka: Broker, tmp_path: Path, worker_properties: dict[str, str]
) -> None:
    properties = worker_properties | {"plugins.jvm": "own"}
    with ProcessCluster(1, directory=tmp_path, bootstrap=kafka.bootstrap, properties=properties) as own:
        worker, name = own.alive[0], a_name("own")
        wait_for_plugins(worker)
        own.create(name, faulty_config(name))
        worker.wait_until("its JVMs were there", lambda: plugin_jvms(worker).keys() == {"", name})
        jvms = list(plugin_jvms(worker).values())
        worker.kill()
        _, left = psutil.wait_procs(jvms, 10)
        assert left == []


@pytest.mark.parametrize("jvm", ["shared", pytest.param("own", marks=pytest.mark.slow)])
def test_a_frozen_worker_s_tasks_stop_and_continue_when_it_thaws(
    kafka: Broker, tmp_path: Path, worker_properties: dict[str, str], jvm: str
) -> None:
    properties = worker_properties | {"plugins.jvm": jvm}
    with ProcessCluster(1, directory=tmp_path, bootstrap=kafka.bootstrap, properties=properties) as own:
        worker, name = own.alive[0], a_name("frozen")
        wait_for_plugins(worker)
        own.create(name, faulty_config(name))
        worker.wait_for_states(name, RUNNING)
        own.freeze_worker(0)
        deadline, seen = time.monotonic() + 30, -1
        while (now := len(own.records(name))) != seen and time.monotonic() < deadline:
            seen = now
            time.sleep(2)  # a task that still ran would write 200 records in this time
        assert now == seen
        own.thaw_worker(0)
        wait_for_more(own, name)
        found = numbers(own, name)
        assert set(found) == set(range(max(found) + 1))


def test_a_connector_moves_between_java_and_kraal_workers(
    kafka: Broker, tmp_path: Path, worker_properties: dict[str, str]
) -> None:
    name, file = a_name("moves"), tmp_path / "in.txt"
    with MixedCluster(
        0, directory=tmp_path / "group", bootstrap=kafka.bootstrap, properties=worker_properties
    ) as own:
        first = own.start_java()
        append(file, "by java")
        own.create(name, source_config(file, name))
        first.wait_for_states(name, RUNNING)
        wait_for_values(own, name, ["by java"])
        second = own.start_kraal()
        first.end()
        append(file, "by kraal")
        wait_for_values(own, name, ["by java", "by kraal"])
        second.wait_for_states(name, RUNNING)
        own.start_java()
        second.end()
        append(file, "by java again")
        wait_for_values(own, name, ["by java", "by kraal", "by java again"])
