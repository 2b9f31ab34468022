"""Tests for metrics of Java tasks, of Java plugins, and of the JVM that runs them."""

from __future__ import annotations

from collections.abc import Mapping

from kraal.cluster.views.snapshot import Published
from kraal.core.ids import ConnectorName, State, TaskId
from kraal.metrics.java_plugins import (
    JvmMetrics,
    JvmState,
    TaskValues,
    jvm_families,
    merge,
    plugin_families,
    render_jvm,
)
from kraal.metrics.registry import MetricsRegistry
from kraal.metrics.scrape import Scrape
from kraal.metrics.task import TaskMeter
from kraal.metrics.text import render
from kraal.metrics.windows import Windows
from tests.fakes.workers.prometheus import Scraped, parse_scrape
from tests.unit.metrics.test_connect_families import IDENTITY, FakeClock, create_metrics, snapshot

JAVA_TASK, PYTHON_TASK = TaskId(ConnectorName("java"), 0), TaskId(ConnectorName("python"), 0)
TASK_PREFIX, SOURCE_PREFIX, SINK_PREFIX, ERRORS_PREFIX = (
    f"kafka_connect_{group}_metrics_"
    for group in ("connector_task", "source_task", "sink_task", "task_error")
)
JVM_VALUES = {
    "source-record-poll-total": 7.0,
    "source-record-active-count": 2.0,
    "last-error-timestamp": 40.0,
}


def create_worker_metrics(*, is_source: bool = True) -> MetricsRegistry:
    """Return the metrics of a worker with a Java task and a Python task that have each read 3 records."""
    metrics = create_metrics(JAVA_TASK, PYTHON_TASK)
    for task in (JAVA_TASK, PYTHON_TASK):
        meter = TaskMeter(
            task, is_source=is_source, time=FakeClock(), windows=Windows(), publish=metrics.publish
        )
        meter.record_state(State.RUNNING)
        meter.record_batch(records=3, duration_s=1, poll_s=1)
    return metrics


def scrape(metrics: MetricsRegistry, tasks: Mapping[TaskId, TaskValues | None], text: str = "") -> Scraped:
    state = snapshot({JAVA_TASK.connector: [State.RUNNING] * 2, PYTHON_TASK.connector: [State.RUNNING] * 2})
    jvm_metrics = JvmMetrics(tasks=tasks, jvms=[JvmState(is_up=True, starts=2)], text=text)
    page = Scrape(Published(state), metrics, IDENTITY, str, java=lambda _: jvm_metrics)
    return parse_scrape("".join(page()))


def java_value(samples: Scraped, name: str) -> float:
    return samples.value(name, connector="java", task="0")


def python_value(samples: Scraped, name: str) -> float:
    return samples.value(name, connector="python", task="0")


def test_tasks_of_both_kinds_are_in_the_same_families() -> None:
    samples = scrape(create_worker_metrics(), {JAVA_TASK: JVM_VALUES})
    name = f"{SOURCE_PREFIX}source_record_poll_total"
    assert (java_value(samples, name), python_value(samples, name)) == (7, 3)
    assert java_value(samples, f"{TASK_PREFIX}running_ratio") == python_value(
        samples, f"{TASK_PREFIX}running_ratio"
    )
    assert samples.types[name] == "counter"


def test_only_java_tasks_have_active_record_metrics() -> None:
    samples = scrape(create_worker_metrics(), {JAVA_TASK: JVM_VALUES})
    name = f"{SOURCE_PREFIX}source_record_active_count"
    assert len(samples.all_of(name)) == 1
    assert java_value(samples, name) == 2
    assert samples.types[name] == "gauge"


def test_sinks_have_sink_metrics() -> None:
    samples = scrape(
        create_worker_metrics(is_source=False), {JAVA_TASK: {"partition-count": 4.0, "total-retries": 1.0}}
    )
    assert java_value(samples, f"{SINK_PREFIX}partition_count") == 4
    assert java_value(samples, f"{ERRORS_PREFIX}total_retries") == 1


def test_last_error_includes_the_task_failure() -> None:
    metrics = create_worker_metrics()
    for ms, expected_ms in ((30, 40), (50, 50)):
        metrics.current().tasks[JAVA_TASK].last_error_ms = ms
        assert (
            java_value(scrape(metrics, {JAVA_TASK: JVM_VALUES}), f"{ERRORS_PREFIX}last_error_timestamp")
            == expected_ms
        )


def test_unknown_totals_of_a_java_task_are_omitted() -> None:
    samples = scrape(create_worker_metrics(), {JAVA_TASK: None})
    assert len(samples.all_of(f"{SOURCE_PREFIX}source_record_poll_total")) == 1
    assert len(samples.all_of(f"{ERRORS_PREFIX}total_retries")) == 1
    assert java_value(samples, f"{TASK_PREFIX}running_ratio") == python_value(
        samples, f"{TASK_PREFIX}running_ratio"
    )


def test_jvm_state_is_exported() -> None:
    samples = scrape(create_worker_metrics(), {}, text="# HELP x X.\n# TYPE x gauge\nx 1\n")
    assert samples.value("kraal_jvm_up", jvm="plugins") == 1
    assert samples.value("kraal_jvm_starts_total", jvm="plugins") == 2
    assert samples.value("x") == 1


def test_worker_without_java_plugins_has_no_jvm_families() -> None:
    page = Scrape(Published(snapshot({})), create_metrics(), IDENTITY, str)
    assert "kraal_jvm" not in "".join(page())


def test_jvm_memory_and_collections_are_exported() -> None:
    area = {"used": 1, "committed": 2}
    jvm = {
        "heap": {**area, "max": 3},
        "nonheap": area,
        "threads": 4,
        "uptime_ms": 5500,
        "collectors": {"G1 Young": {"count": 6, "ms": 700}},
    }
    samples = parse_scrape("".join(map(render, jvm_families(jvm))))
    assert samples.value("kraal_jvm_memory_used_bytes", jvm="plugins", area="nonheap") == 1
    assert samples.value("kraal_jvm_memory_max_bytes", jvm="plugins", area="heap") == 3
    assert len(samples.all_of("kraal_jvm_memory_max_bytes")) == 1
    assert samples.value("kraal_jvm_gc_seconds_total", jvm="plugins", gc="G1 Young") == 0.7
    assert samples.value("kraal_jvm_uptime_seconds", jvm="plugins") == 5.5
    assert "kraal_jvm_open_files" not in samples.types, "the system does not provide this value"


def family(rows: list[object], text: str = "") -> dict[str, object]:
    return {"help": text, "rows": rows}


def test_plugin_metric_tags_become_labels() -> None:
    tags = {"connector": 'a"b', "task": "0", "transformation": "Alias", "2-My.tag": "x", "__name__": "y"}
    jvm_values = {
        "plugins": {"Sizes.of-all_total": family([[tags, 2]], "How\nlarge.")},
        "debezium": {"MilliSecondsBehindSource": family([[{"plugin": "postgres", "name": "s"}, -1]])},
    }
    samples = parse_scrape("".join(map(render, plugin_families(jvm_values))))
    name = "kafka_connect_plugins_sizes_of_all_total"
    labels = {"connector": 'a"b', "task": "0", "transformation": "Alias", "tag_2_my_tag": "x", "name__": "y"}
    assert samples.value(name, **labels) == 2
    assert (samples.types[name], samples.helps[name]) == ("counter", r"How\nlarge.")
    assert samples.value("debezium_metrics_MilliSecondsBehindSource", plugin="postgres", name="s") == -1


def test_equal_prometheus_names_are_merged_into_one_family() -> None:
    jvm_values = {
        "plugins": {
            "a-b": family([[{"task": "0"}, 1], [{"task": "1"}, "NaN"]]),
            "a.b": family([[{"task": "0"}, 9], [{"task": "2"}, 3]]),
        },
        "debezium": {},
    }
    samples = parse_scrape("".join(map(render, plugin_families(jvm_values))))
    values = [samples.value("kafka_connect_plugins_a_b", task=task) for task in "012"]
    assert [values[0], values[2]] == [1, 3]
    assert len(samples.values) == 3


def test_families_of_several_jvms_are_merged() -> None:
    def jvm_values(value: int, **tags: str) -> dict[str, dict[str, object]]:
        return {"plugins": {"rows": family([[{"connector": "c"}, value], [tags, value]])}, "debezium": {}}

    rendered_jvms = [
        render_jvm(plugin_families(values))
        for values in (jvm_values(1, task="0"), jvm_values(2, task="a b\u2028c"))
    ]
    samples = parse_scrape(merge(rendered_jvms))
    assert samples.value("kafka_connect_plugins_rows", connector="c") == 1
    assert samples.value("kafka_connect_plugins_rows", task="0") == 1
    assert samples.value("kafka_connect_plugins_rows", task="a b\u2028c") == 2
    assert merge(rendered_jvms).count("# TYPE") == 1


def test_dedicated_jvm_is_labeled_with_its_connector() -> None:
    area = {"used": 1, "committed": 2}
    jvm = {"heap": area, "nonheap": area, "collectors": {}, "threads": 4}
    samples = parse_scrape(merge([render_jvm(jvm_families(jvm)), render_jvm(jvm_families(jvm, "c"))]))
    assert samples.value("kraal_jvm_threads", jvm="plugins") == 4
    assert samples.value("kraal_jvm_threads", jvm="plugins", connector="c") == 4
    assert samples.value("kraal_jvm_memory_used_bytes", jvm="plugins", connector="c", area="heap") == 1
