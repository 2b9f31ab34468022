"""Tests that each of three workers accepts all requests, and that the workers share connectors and tasks evenly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from kraal.testing import ProcessCluster
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import RUNNING, Pipe

pytestmark = [pytest.mark.ci, pytest.mark.one_a_day("number")]

FOR_EACH_WORKER = pytest.mark.parametrize("number", range(3))


def wait_until_equal(pipe: Pipe) -> None:
    pipe.worker.wait_until("both files were equal", pipe.is_through_exactly)


@FOR_EACH_WORKER
def test_request_to_one_worker_applies_to_all_workers(
    cluster: ProcessCluster, pipe: Pipe, number: int
) -> None:
    worker = cluster.workers[number]
    name = f"{pipe.topic}-extra"
    config = {**pipe.source_config, "name": name, "file": f"{pipe.source_file}-extra"}
    response = worker.create(name, config)
    assert response.body["config"] == config
    assert response.body["tasks"] == []
    cluster.wait_for_states(name, RUNNING)
    assert {tuple(sorted(w.get("/connectors").body)) for w in cluster.workers} == {
        tuple(sorted(worker.get("/connectors").body))
    }
    assert worker.post("/connectors", {"name": name, "config": config}).status == 409
    assert worker.put(f"/connectors/{name}/config", config).status == 200
    cluster.wait_for_states(name, RUNNING)
    assert worker.delete(f"/connectors/{name}").status == 204
    cluster.wait_until("the connector was deleted", lambda: all(is_deleted(w, name) for w in cluster.workers))
    assert worker.delete(f"/connectors/{name}").status == 404


def is_deleted(worker: WorkerProcess, name: str) -> bool:
    return worker.get(f"/connectors/{name}").status == 404 and not worker.states(name)


@FOR_EACH_WORKER
def test_any_worker_pauses_stops_and_resumes_a_connector(
    cluster: ProcessCluster, pipe: Pipe, number: int
) -> None:
    worker = cluster.workers[number]
    pipe.write(10)
    wait_until_equal(pipe)
    assert worker.put(f"/connectors/{pipe.source}/pause").status == 202
    cluster.wait_for_states(pipe.source, ["PAUSED", "PAUSED"])
    pipe.write(10)
    assert worker.put(f"/connectors/{pipe.source}/resume").status == 202
    wait_until_equal(pipe)
    cluster.wait_for_states(pipe.source, RUNNING)
    assert worker.put(f"/connectors/{pipe.source}/stop").status == 204
    cluster.wait_for_states(pipe.source, ["STOPPED"])
    pipe.write(10)
    assert worker.put(f"/connectors/{pipe.source}/resume").status == 202
    wait_until_equal(pipe)
    cluster.wait_for_states(pipe.source, RUNNING)


@FOR_EACH_WORKER
def test_any_worker_restarts_tasks_of_another_worker(
    cluster: ProcessCluster, pipe: Pipe, number: int
) -> None:
    worker = cluster.workers[number]
    pipe.write(10)
    wait_until_equal(pipe)
    for name in (pipe.source, pipe.sink):
        response = worker.post(f"/connectors/{name}/restart?includeTasks=true&onlyFailed=false")
        assert response.status == 202
        states = [response.body["connector"]["state"], *(t["state"] for t in response.body["tasks"])]
        assert states == ["RESTARTING", "RESTARTING"]
        cluster.wait_for_states(name, RUNNING)
        assert worker.post(f"/connectors/{name}/restart").status == 204
        assert worker.post(f"/connectors/{name}/tasks/0/restart").status == 204
        assert worker.post(f"/connectors/{name}/tasks/1/restart").status == 404
    pipe.write(10)
    wait_until_equal(pipe)
    cluster.wait_for_states(pipe.source, RUNNING)
    cluster.wait_for_states(pipe.sink, RUNNING)


def test_work_is_shared_evenly(cluster: ProcessCluster, pipe: Pipe) -> None:
    names = [f"{pipe.topic}-{n}" for n in range(6)]
    for n, name in enumerate(names):
        config = {**pipe.source_config, "name": name, "file": f"{pipe.source_file}-{n}"}
        cluster.workers[n % 3].create(name, config)
    for name in names:
        cluster.wait_for_states(name, RUNNING)

    def is_even() -> bool:
        counts = cluster.work().values()  # without workers that have no work
        return len(counts) == 3 and max(counts) - min(counts) <= 2

    cluster.wait_until("each worker had a third of the work", is_even)
    for name in names:
        cluster.workers[0].delete(f"/connectors/{name}")


def test_any_worker_explains_the_placement_of_a_task(cluster: ProcessCluster, pipe: Pipe) -> None:
    explanations: list[dict[str, Any]] = []

    def are_equal() -> bool:
        explanations[:] = [
            worker.get(f"/connectors/{pipe.source}/explain").body for worker in cluster.workers
        ]
        if not all(map(is_complete, explanations)):
            return False
        placements = [explanation["tasks"][0]["placement"] for explanation in explanations]
        return all(placement == placements[0] for placement in placements)

    try:
        cluster.wait_until("all workers explained the same placement", are_equal)
    except AssertionError as error:
        error.add_note(f"The last explanations: {explanations}")
        raise


def is_complete(explanation: Mapping[str, Any]) -> bool:
    """Return whether all workers contributed to an explanation, and it explains one running task."""
    if explanation.get("silent") != [] or len(explanation["tasks"]) != 1:
        return False  # during a rebalance, for example
    [task] = explanation["tasks"]
    if not task["placement"]:
        return False
    worker_id = urlsplit(str(task["placement"]["worker"])).netloc
    return (task["state"], task["reasons"], task["worker_id"]) == ("RUNNING", [], worker_id) and any(
        event["kind"] == "state" and "RUNNING" in event["text"] for event in task["events"]
    )
