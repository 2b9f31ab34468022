"""Tests for `GET /metrics` of a real worker with a pipe. Names of metrics are those of ConnectMetricsRegistry."""

from __future__ import annotations

import httpx2

from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import Pipe
from tests.fakes.workers.prometheus import Scraped, parse_scrape


def test_metrics_count_records_of_connectors(pipe: Pipe, worker: WorkerProcess) -> None:
    pipe.write(100)
    worker.wait_until("both files were equal", pipe.is_through_exactly)
    source, sink = {"connector": pipe.source, "task": "0"}, {"connector": pipe.sink, "task": "0"}
    source_metrics, sink_metrics = "kafka_connect_source_task_metrics_", "kafka_connect_sink_task_metrics_"
    metrics = Scraped()

    def are_commits_counted() -> bool:
        nonlocal metrics
        response = httpx2.get(f"{worker.url}/metrics")
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        metrics = parse_scrape(response.text)
        commit_times = metrics.all_of("kafka_connect_connector_task_metrics_offset_commit_avg_time_ms")
        return (
            metrics.value(source_metrics + "source_record_write_total", **source) == 100
            and commit_times.get(frozenset(source.items()), 0.0) > 0
            and metrics.value(sink_metrics + "sink_record_read_total", **sink) == 100
            and metrics.value(sink_metrics + "offset_commit_completion_total", **sink) >= 1
            and metrics.all_of("kraal_task_backlog_records").get(frozenset(sink.items())) == 0
        )

    worker.wait_until("all records and commits were counted", are_commits_counted)
    assert metrics.value(source_metrics + "source_record_write_total", **source) == 100
    assert metrics.value(source_metrics + "poll_batch_max_time_ms", **source) > 0
    assert metrics.value("kafka_connect_connector_task_metrics_offset_commit_avg_time_ms", **source) > 0
    assert metrics.value(sink_metrics + "sink_record_read_total", **sink) == 100
    assert metrics.value(sink_metrics + "put_batch_max_time_ms", **sink) > 0
    assert metrics.value(sink_metrics + "partition_count", **sink) >= 1
    assert metrics.value("kraal_task_backlog_records", **sink) == 0
    [task] = httpx2.get(f"{worker.url}/connectors?expand=progress").json()[pipe.sink]["progress"]["tasks"]
    assert (task["records_total"], task["backlog_records"], task["poll_ms"]) == (100, 0, None)
    assert min(task["write_ms"], task["commit_ms"]) > 0

    def is_sampled() -> bool:
        tasks = httpx2.get(f"{worker.url}/connectors/{pipe.sink}/series").json()["tasks"]
        return any(rate for task_series in tasks for rate in task_series["records_per_second"])

    worker.wait_until("the records were sampled", is_sampled)
    assert metrics.value("kafka_connect_connector_task_metrics", **sink, status="running") == 1
    assert metrics.label_of("kafka_connect_connector_metrics", "connector_class", connector=pipe.source) == {
        "org.apache.kafka.connect.file.FileStreamSourceConnector"
    }
