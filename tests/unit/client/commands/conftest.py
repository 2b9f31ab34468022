"""Fixtures with connectors and connector files for the tests of several commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
from tests.fakes.workers.connect import Connect
from tests.unit.client.conftest import Files

HOST = "127.0.0.1:8083"


TRACE = "java.io.IOException: disk full\n\tat a.b(C.java:1)\n"


MUTATING_METHODS = ("POST", "PUT", "PATCH", "DELETE")


def flat_json(name: str, **extra_config: str) -> str:
    return json.dumps({"name": name, "connector.class": FAKE_SOURCE, **extra_config})


def create_request(name: str, state: str) -> str:
    return json.dumps({"name": name, "config": {"connector.class": FAKE_SOURCE}, "initial_state": state})


@pytest.fixture
def populated_worker(worker: Connect) -> Connect:
    worker.create("orders", {"connector.class": FAKE_SOURCE, "tasks.max": "2", "my.password": "hunter2"})
    worker.create("archive", {"connector.class": FAKE_SINK, "topics": "orders"})
    worker.fail("orders", 1, TRACE)
    return worker


@pytest.fixture
def worker_with_orders(worker: Connect) -> Connect:
    worker.create("orders", {"connector.class": FAKE_SOURCE, "tasks.max": "2"})
    worker.create("other", {"connector.class": FAKE_SOURCE})
    return worker


@pytest.fixture
def connector_folder(write: Files, tmp_path: Path) -> str:
    write("connectors/b.json", flat_json("b"))
    write("connectors/a.yaml", f"name: a\nconnector.class: {FAKE_SOURCE}\ntasks.max: 2\n")
    write("connectors/c.properties", f"name=c\nconnector.class={FAKE_SOURCE}\n")
    return str(tmp_path / "connectors")
