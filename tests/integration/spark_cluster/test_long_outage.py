"""Tests that a broker outage longer than the executors' client timeouts fails no task and loses no lines."""

from __future__ import annotations

import time
from typing import Final

import pytest

from tests.integration.spark_cluster.environment import SparkEnvironment, read_end_offset, wait_until
from tests.integration.spark_cluster.flow import RECOVERY_TIMEOUT_S, Flow

pytestmark = pytest.mark.slow  # 5 minutes on a busy machine

OUTAGE_S: Final = 125.0
"""Duration of the outage, longer than Kafka's default `delivery.timeout.ms` and than four attempts with `OVERRIDES`."""
CHECK_INTERVAL_S: Final = 1.0
OVERRIDES: Final = {
    # Executors send a request to the broker for each record, so a request is active when the broker is killed.
    "producer.override.batch.size": "0",
    "consumer.override.max.partition.fetch.bytes": "1",
    # A job fails after four attempts of a Spark task. With these timeouts, jobs fail during the outage.
    "producer.override.delivery.timeout.ms": "10000",
    "producer.override.request.timeout.ms": "5000",
    "producer.override.max.block.ms": "10000",
    "consumer.override.default.api.timeout.ms": "5000",
    "consumer.override.request.timeout.ms": "5000",
}
WORKER_PROPERTIES: Final = {
    "spark.network.timeout": "15s",  # the time for which an executor waits for a record
    "spark.network.timeoutInterval": "10s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "60000",
}
FETCH_FRAME: Final = "KafkaDataConsumer.get("


def test_lines_flow_again_after_an_outage_longer_than_client_timeouts(environment: SparkEnvironment) -> None:
    flow = Flow(environment, "hasty", WORKER_PROPERTIES, overrides=OVERRIDES)
    source_name, sink_name = flow.connectors
    flow.wait_until_through()
    flow.worker.put(f"/connectors/{sink_name}/pause")
    flow.worker.wait_for_states(sink_name, ["PAUSED", "PAUSED"])
    flow.write()
    wait_until(
        lambda: read_end_offset(environment.broker.bootstrap, flow.topic) >= flow.line_count,
        "all lines were in Kafka",
        RECOVERY_TIMEOUT_S,
    )
    flow.worker.put(f"/connectors/{sink_name}/resume")
    wait_until(lambda: FETCH_FRAME in environment.threads(), "an executor read")
    assert environment.broker.kill()
    flow.write()
    end = time.monotonic() + OUTAGE_S
    while time.monotonic() < end:
        for name in flow.connectors:
            assert "FAILED" not in flow.worker.states(name)
        time.sleep(CHECK_INTERVAL_S)
    assert f"{source_name}-0: Retrying batch" in flow.worker.log_text(), (
        "a job of the source must fail and be retried"
    )
    environment.broker.start()
    flow.write()
    flow.wait_until_through()
