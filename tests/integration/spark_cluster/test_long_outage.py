"""An outage of the broker that exceeds the timeouts of executors' clients fails no task and loses no lines."""

from __future__ import annotations

import time
from typing import Final

import pytest

from tests.integration.spark_cluster.flow import BACK_S, Flow
from tests.integration.spark_cluster.place import Place, end_of, until

pytestmark = pytest.mark.slow  # 5 minutes on a busy machine

OUTAGE_S: Final = 125.0
"""Longer than Kafka's default `delivery.timeout.ms`, and than four attempts with the settings below."""
LOOK_S: Final = 1.0
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
WORKER: Final = {
    "spark.network.timeout": "15s",  # the time for which an executor waits for a record
    "spark.network.timeoutInterval": "10s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "60000",
}
READING: Final = "KafkaDataConsumer.get("


def test_lines_flow_again_after_an_outage_longer_than_client_timeouts(place: Place) -> None:
    flow = Flow(place, "hasty", WORKER, overrides=OVERRIDES)
    source, out = flow.connectors
    flow.wait_until_through()
    flow.worker.put(f"/connectors/{out}/pause")
    flow.worker.wait_for_states(out, ["PAUSED", "PAUSED"])
    flow.write()
    until(lambda: end_of(place.broker.bootstrap, flow.topic) >= flow.written, "all were in Kafka", BACK_S)
    flow.worker.put(f"/connectors/{out}/resume")
    until(lambda: READING in place.threads(), "an executor read")
    assert place.broker.kill()
    flow.write()
    back = time.monotonic() + OUTAGE_S
    while time.monotonic() < back:
        for name in flow.connectors:
            assert "FAILED" not in flow.worker.states(name)
        time.sleep(LOOK_S)
    assert f"{source}-0: Retrying batch" in flow.worker.log_text(), "its job failed and was retried"
    place.broker.start()
    flow.write()
    flow.wait_until_through()
