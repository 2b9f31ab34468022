"""Tests for `/metrics` and JMX of a worker whose Java plugins have their own metrics."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kraal.broker.broker import free_port
from kraal.jars.java import find_java
from kraal.jars.java_module import java_class_path
from kraal.java_plugins.discovery import PluginFiles
from kraal.java_plugins.jvm import Jvm
from kraal.testing import ProcessCluster
from tests.integration.java_plugins.flows import (
    PLUGINS,
    RUNNING,
    faulty_config,
    read_starts,
    restart_and_wait,
    scrape,
    unique_name,
)

MONITORED = "kraal.testing.Monitored$"
READY = "Java plugins are ready"
SOURCE = "kafka_connect_source_task_metrics_"
ERRORS = "kafka_connect_task_error_metrics_"
MONITORED_PLUGINS = {
    "transforms": "t",
    "transforms.t.type": f"{MONITORED}Transform",
    "transforms.t.predicate": "p",
    "predicates": "p",
    "predicates.p.type": f"{MONITORED}Matches",
    "key.converter": f"{MONITORED}Text",
    "value.converter": f"{MONITORED}Text",
    "header.converter": f"{MONITORED}Headers",
    "errors.tolerance": "all",
}


def test_scrape_contains_metrics_of_the_plugins_jvm(cluster: ProcessCluster) -> None:
    name, worker = unique_name("measured"), cluster.alive[0]
    task = {"connector": name, "task": "0"}
    cluster.create(name, faulty_config(name) | MONITORED_PLUGINS)
    worker.wait_for_states(name, RUNNING)
    errors = f"{ERRORS}total_record_failures"
    worker.wait_until(
        "a transform had failed", lambda: scrape(worker).all_of(errors).get(frozenset(task.items()), 0) > 0
    )
    maxima = (f"{SOURCE}poll_batch_max_time_ms", "kafka_connect_connector_task_metrics_batch_size_max")
    worker.wait_until(  # must be read while the task polls, because the values become NaN some time later
        "the maxima were available",
        lambda: all(scrape(worker).value(metric, **task) > 0 for metric in maxima),
    )
    assert scrape(worker).value(maxima[1], **task) == 1
    cluster.pause(name)  # the values no longer change
    worker.wait_for_states(name, ["PAUSED"] * 2)

    def all_sent() -> bool:
        metrics = scrape(worker)
        active = metrics.value(f"{SOURCE}source_record_active_count", **task)
        write_total = metrics.value(f"{SOURCE}source_record_write_total", **task)
        return active == 0 and write_total == len(cluster.records(name))

    worker.wait_until("all records were sent", all_sent)
    metrics = scrape(worker)
    polled = int(metrics.value(f"{SOURCE}source_record_poll_total", **task))
    failed = sum(str(number).endswith("3") for number in range(polled))
    assert metrics.value(f"{SOURCE}source_record_write_total", **task) == polled - failed > 0
    assert metrics.value(errors, **task) == metrics.value(f"{ERRORS}total_records_skipped", **task) == failed
    assert metrics.value(f"{ERRORS}last_error_timestamp", **task) > 0

    calls = f"{PLUGINS}calls_total"
    assert metrics.value(calls, **task, transformation="t", kind="Transform") == polled
    assert metrics.value(calls, **task, predicate="p", kind="Matches") == polled
    assert metrics.value(calls, **task, converter="key", kind="Text") == polled - failed
    assert metrics.value(calls, **task, converter="value", kind="Text") == polled - failed
    assert metrics.value(calls, **task, converter="header", kind="Headers") == 0

    assert metrics.value("kraal_jvm_up", jvm="plugins") == 1
    assert metrics.value("kraal_jvm_starts_total", jvm="plugins") >= worker.log_text().count(READY) > 0
    used = metrics.value("kraal_jvm_memory_used_bytes", jvm="plugins", area="heap")
    assert 0 < used <= metrics.value("kraal_jvm_memory_max_bytes", jvm="plugins", area="heap") <= 512 << 20
    assert metrics.value("kraal_jvm_open_files", jvm="plugins") > 0

    def has_chart_values(series: str) -> bool:
        tasks = worker.get(f"/connectors/{name}/series").body["tasks"]
        return any(value is not None for of_task in tasks for value in of_task[series])

    worker.wait_until(
        "the charts had durations", lambda: has_chart_values("poll_ms") and has_chart_values("commit_ms")
    )
    assert not has_chart_values("write_ms")

    cluster.resume(name)
    worker.wait_for_states(name, RUNNING)
    assert read_starts(worker, name).keys() == {frozenset({("connector", name)}), frozenset(task.items())}
    restart_and_wait(cluster, name)  # the metrics of the new start have the same names
    cluster.delete(name)
    worker.wait_until("the metrics were removed", lambda: not read_starts(worker, name))


def test_metrics_of_a_failed_task_are_kept_until_it_is_deleted(cluster: ProcessCluster) -> None:
    name, worker = unique_name("failed"), cluster.alive[0]
    cluster.create(name, {**faulty_config(name), **MONITORED_PLUGINS, "errors.tolerance": "none"})
    worker.wait_for_states(name, ["RUNNING", "FAILED"])
    for _ in range(2):
        metrics = scrape(worker)
        assert metrics.value(f"{ERRORS}total_record_failures", connector=name, task="0") == 1
        assert metrics.value(f"{SOURCE}source_record_poll_total", connector=name, task="0") == 4
    cluster.delete(name)


def test_standard_jmx_options_open_a_port(plugin_path: Path) -> None:
    port = free_port()
    settings = {"host": "127.0.0.1", "port": port, "rmi.port": port, "authenticate": "false", "ssl": "false"}
    options = [f"-Dcom.sun.management.jmxremote.{key}={value}" for key, value in settings.items()]
    options += ["-Djava.rmi.server.hostname=127.0.0.1", "-Xmx256M"]
    plugins = {"plugin.path": str(plugin_path), "plugin.discovery": "service_load"}
    jvm = Jvm(java_class_path(), options, PluginFiles(plugins))
    try:
        assert jvm.entry is not None, "the JVM must start"
        command = [str(find_java()), "-cp", os.fspath(plugin_path / "faulty" / "faulty.jar")]
        command += ["kraal.testing.JmxValue", str(port), "java.lang:type=Runtime", "Name"]
        output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    finally:
        jvm.close()
    assert output.startswith(f"{jvm.process.pid}@")
