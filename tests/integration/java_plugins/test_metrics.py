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
from kraal.testing import ProcessCluster, WorkerProcess
from tests.fakes.workers.prometheus import Scraped
from tests.integration.java_plugins.flows import (
    PLUGIN_METRICS,
    RUNNING,
    faulty_config,
    read_starts,
    restart_and_wait,
    scrape,
    unique_name,
)

MONITORED_PREFIX = "kraal.testing.Monitored$"
READY_LINE = "Java plugins are ready"
SOURCE_METRICS = "kafka_connect_source_task_metrics_"
ERROR_METRICS = "kafka_connect_task_error_metrics_"
MONITORED_PLUGINS = {
    "transforms": "t",
    "transforms.t.type": f"{MONITORED_PREFIX}Transform",
    "transforms.t.predicate": "p",
    "predicates": "p",
    "predicates.p.type": f"{MONITORED_PREFIX}Matches",
    "key.converter": f"{MONITORED_PREFIX}Text",
    "value.converter": f"{MONITORED_PREFIX}Text",
    "header.converter": f"{MONITORED_PREFIX}Headers",
    "errors.tolerance": "all",
}


def test_scrape_contains_metrics_of_the_plugins_jvm(cluster: ProcessCluster) -> None:
    name, worker = unique_name("measured"), cluster.alive[0]
    task_labels = {"connector": name, "task": "0"}
    cluster.create(name, faulty_config(name) | MONITORED_PLUGINS)
    worker.wait_for_states(name, RUNNING)
    failures_metric = f"{ERROR_METRICS}total_record_failures"
    worker.wait_until(
        "a transform had failed",
        lambda: scrape(worker).all_of(failures_metric).get(frozenset(task_labels.items()), 0) > 0,
    )
    maxima = (
        f"{SOURCE_METRICS}poll_batch_max_time_ms",
        "kafka_connect_connector_task_metrics_batch_size_max",
    )
    worker.wait_until(  # must be read while the task polls, because the values become NaN some time later
        "the maxima were available",
        lambda: all(scrape(worker).value(metric, **task_labels) > 0 for metric in maxima),
    )
    assert scrape(worker).value(maxima[1], **task_labels) == 1
    cluster.pause(name)  # the values no longer change
    worker.wait_for_states(name, ["PAUSED"] * 2)

    metrics = scrape_when_sent(cluster, name)
    polled_count = int(metrics.value(f"{SOURCE_METRICS}source_record_poll_total", **task_labels))
    failed_count = sum(str(number).endswith("3") for number in range(polled_count))
    write_total = metrics.value(f"{SOURCE_METRICS}source_record_write_total", **task_labels)
    assert write_total == polled_count - failed_count > 0
    assert metrics.value(failures_metric, **task_labels) == failed_count
    assert metrics.value(f"{ERROR_METRICS}total_records_skipped", **task_labels) == failed_count
    assert metrics.value(f"{ERROR_METRICS}last_error_timestamp", **task_labels) > 0

    check_plugin_calls(metrics, task_labels, polled_count, failed_count)
    check_jvm_metrics(metrics, worker)

    def has_chart_values(series: str) -> bool:
        tasks = worker.get(f"/connectors/{name}/series").body["tasks"]
        return any(value is not None for task_series in tasks for value in task_series[series])

    worker.wait_until(
        "the charts had durations", lambda: has_chart_values("poll_ms") and has_chart_values("commit_ms")
    )
    assert not has_chart_values("write_ms")

    cluster.resume(name)
    worker.wait_for_states(name, RUNNING)
    assert read_starts(worker, name).keys() == {
        frozenset({("connector", name)}),
        frozenset(task_labels.items()),
    }
    restart_and_wait(cluster, name)  # the metrics of the new start have the same names
    cluster.delete(name)
    worker.wait_until("the metrics were removed", lambda: not read_starts(worker, name))


def scrape_when_sent(cluster: ProcessCluster, name: str) -> Scraped:
    """Return the first scrape that has the metrics of the plugins' JVM and counts all records of the topic `name`."""
    worker, labels, scrapes = cluster.alive[0], {"connector": name, "task": "0"}, list[Scraped]()

    def is_sent() -> bool:
        metrics = scrape(worker)
        scrapes.append(metrics)
        active = metrics.value(f"{SOURCE_METRICS}source_record_active_count", **labels)
        write_total = metrics.value(f"{SOURCE_METRICS}source_record_write_total", **labels)
        is_up = metrics.value("kraal_jvm_up", jvm="plugins") == 1
        return is_up and active == 0 and write_total == len(cluster.records(name))

    worker.wait_until("all records were sent", is_sent)
    return scrapes[-1]


def check_plugin_calls(
    metrics: Scraped, task_labels: dict[str, str], polled_count: int, failed_count: int
) -> None:
    """Check the metrics of the transform, the predicate and the converters."""
    calls_metric = f"{PLUGIN_METRICS}calls_total"
    converted_count = polled_count - failed_count
    assert metrics.value(calls_metric, **task_labels, transformation="t", kind="Transform") == polled_count
    assert metrics.value(calls_metric, **task_labels, predicate="p", kind="Matches") == polled_count
    assert metrics.value(calls_metric, **task_labels, converter="key", kind="Text") == converted_count
    assert metrics.value(calls_metric, **task_labels, converter="value", kind="Text") == converted_count
    assert metrics.value(calls_metric, **task_labels, converter="header", kind="Headers") == 0


def check_jvm_metrics(metrics: Scraped, worker: WorkerProcess) -> None:
    """Check the metrics of the JVM of Java plugins."""
    assert metrics.value("kraal_jvm_up", jvm="plugins") == 1
    assert metrics.value("kraal_jvm_starts_total", jvm="plugins") >= worker.log_text().count(READY_LINE) > 0
    used_bytes = metrics.value("kraal_jvm_memory_used_bytes", jvm="plugins", area="heap")
    max_bytes = metrics.value("kraal_jvm_memory_max_bytes", jvm="plugins", area="heap")
    assert 0 < used_bytes <= max_bytes <= 512 << 20
    assert metrics.value("kraal_jvm_open_files", jvm="plugins") > 0


def test_metrics_of_a_failed_task_are_kept_until_it_is_deleted(cluster: ProcessCluster) -> None:
    name, worker = unique_name("failed"), cluster.alive[0]
    cluster.create(name, {**faulty_config(name), **MONITORED_PLUGINS, "errors.tolerance": "none"})
    worker.wait_for_states(name, ["RUNNING", "FAILED"])
    for _ in range(2):
        metrics = scrape(worker)
        assert metrics.value(f"{ERROR_METRICS}total_record_failures", connector=name, task="0") == 1
        assert metrics.value(f"{SOURCE_METRICS}source_record_poll_total", connector=name, task="0") == 4
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
