"""Tests for stored configs that a plugin upgrade made invalid, and for the reported versions of idle tasks.

The expected results were observed on a 4.3.0 worker. A FileStreamSourceConnector whose config record lacks `topic` is
FAILED with `Missing required configuration "topic" which has no default value.` and has no tasks; while paused, it is
PAUSED instead. With `tasks.max=zero`, the connector is FAILED even while it is paused, and has no version.
"""

from __future__ import annotations

from typing import ClassVar

import pytest
from typing_extensions import override

from actors.messages.herder import PutConfig, RestartConnector, SetTargetState
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.core.errors import KraalError
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.core.records import Entry
from kraal.plugins.registry import Registry
from kraal.protocol.records import ConnectorConfigRecord, TargetStateRecord, encode
from kraal.stores.memory import MemoryLog
from kraal.testing._simulation.engine import FakeEngine
from kraal.testing._simulation.plugins import FAKE_SOURCE, FakeSourceConnector
from kraal.testing._simulation.worker import CONVERTERS, EmbeddedWorker

NAME = ConnectorName("numbers")
SEEDS = range(4)
CONFIG: dict[str, str | None] = {"name": NAME, "connector.class": FAKE_SOURCE, "tasks.max": "2"}
MISSING_TOPIC_ERROR = 'ConfigInvalid: Missing required configuration "fake.topic" which has no default value.'
PAUSE, RESUME, STOP = (
    SetTargetState(name=NAME, target=target)
    for target in (TargetState.PAUSED, TargetState.STARTED, TargetState.STOPPED)
)


class UpgradedConnector(FakeSourceConnector):
    """A connector that declares, but does not read, a required key that older configs lack."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(name="fake.topic", type=ConfigType.STRING, importance=Importance.HIGH, doc="A topic."),
            Key(name="fake.size", type=ConfigType.INT, default=1, importance=Importance.LOW, doc="A size."),
        ]
    )


class NewerConnector(FakeSourceConnector):
    """A newer version of the plugin."""

    version = "2.0"

    @override
    def stop(self) -> None:
        return


def registry(connector: type[FakeSourceConnector]) -> Registry:
    installed_plugins = Registry.load()
    return Registry.of(
        {FAKE_SOURCE: connector, **{name: installed_plugins.converter_class(name) for name in CONVERTERS}}
    )


def worker_with_config(
    seed: int, config: dict[str, str | None], target: TargetState | None = None
) -> EmbeddedWorker:
    """Return a worker that starts with a stored config, and with a stored target state unless `target` is None."""
    log = MemoryLog("config")
    if target is not None:
        log.append([Entry(*encode(TargetStateRecord(NAME, target)))])
    log.append([Entry(*encode(ConnectorConfigRecord(NAME, config)))])
    return EmbeddedWorker(seed=seed, registry=registry(UpgradedConnector), config_log=log)


def trace(worker: EmbeddedWorker) -> str:
    text: str = worker.status(NAME)["connector"].get("trace", "")
    return text.partition("\n")[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_connector_without_a_required_key_fails_without_tasks(seed: int) -> None:
    worker = worker_with_config(seed, CONFIG)
    assert worker.states(NAME) == ["FAILED"]
    assert trace(worker) == MISSING_TOPIC_ERROR
    assert worker.status(NAME)["connector"]["version"] == "1.0"
    with pytest.raises(KraalError, match="Failed to start connector: numbers"):
        worker.ask(RestartConnector(name=NAME))
    for message in (PAUSE, RESUME):
        worker.ask(message)
        worker.run()
        assert worker.states(NAME) == ["FAILED"]
    worker.ask(STOP)
    worker.run()
    assert worker.states(NAME) == ["STOPPED"]
    worker.ask(RESUME)
    worker.run()
    assert (worker.states(NAME), trace(worker)) == (["FAILED"], MISSING_TOPIC_ERROR)
    worker.ask(PutConfig(name=NAME, config={**CONFIG, "fake.topic": "t"}))
    worker.run()
    assert worker.states(NAME) == ["RUNNING"] * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_trace_contains_every_validation_error(seed: int) -> None:
    worker = worker_with_config(seed, {**CONFIG, "fake.size": "many"})
    text = worker.status(NAME)["connector"]["trace"]
    assert text.startswith(MISSING_TOPIC_ERROR)
    assert "Invalid value many for configuration fake.size: Not a number of type INT" in text


@pytest.mark.parametrize("seed", SEEDS)
def test_invalid_paused_connector_fails_on_resume(seed: int) -> None:
    worker = worker_with_config(seed, CONFIG, TargetState.PAUSED)
    assert worker.states(NAME) == ["PAUSED"]
    worker.ask(RESUME)
    worker.run()
    assert (worker.states(NAME), trace(worker)) == (["FAILED"], MISSING_TOPIC_ERROR)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("target", [None, TargetState.PAUSED])
@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("tasks.max", "zero", "Invalid value zero for configuration tasks.max: Not a number of type INT"),
        ("tasks.max", "0", "Invalid value 0 for configuration tasks.max: Value must be at least 1"),
        (
            "errors.tolerance",
            "some",
            "Invalid value some for configuration errors.tolerance: String must be one of: none, all",
        ),
    ],
)
def test_connect_keys_are_validated_even_while_paused(
    seed: int, target: TargetState | None, key: str, value: str, error: str
) -> None:
    worker = worker_with_config(seed, {**CONFIG, "fake.topic": "t", key: value}, target)
    assert worker.states(NAME) == ["FAILED"]
    assert trace(worker) == f"ConfigInvalid: {error}"
    assert worker.status(NAME)["connector"]["version"] is None


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_keep_running_when_the_new_connector_config_is_invalid(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed, registry=registry(UpgradedConnector))
    worker.create(NAME, {**CONFIG, "fake.topic": "t"})
    worker.config_log.append([Entry(*encode(ConnectorConfigRecord(NAME, CONFIG)))])
    worker.crash("herder")  # the next herder reads all records
    worker.advance(5)
    assert worker.states(NAME) == ["FAILED", "RUNNING", "RUNNING"]


@pytest.mark.parametrize("seed", SEEDS)
def test_paused_task_reports_its_version(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed, registry=registry(FakeSourceConnector))
    worker.create(NAME, CONFIG)
    worker.ask(PAUSE)
    worker.run()
    engine = FakeEngine()
    upgraded_worker = EmbeddedWorker(
        seed=seed,
        registry=registry(NewerConnector),
        engine=engine,
        config_log=worker.config_log,
        status_log=worker.status_log,
        offsets=worker.offsets,
    )
    assert upgraded_worker.states(NAME) == ["PAUSED"] * 3
    assert engine.opened == []
    assert [task["version"] for task in upgraded_worker.status(NAME)["tasks"]] == ["2.0", "2.0"]


@pytest.mark.parametrize("seed", SEEDS)
def test_unopened_task_reports_its_version(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.fake.fail_opening(TaskId(NAME, 0), "it does not open")
    worker.create(NAME, CONFIG)
    assert worker.states(NAME) == ["RUNNING", "FAILED", "RUNNING"]
    assert [task["version"] for task in worker.status(NAME)["tasks"]] == ["1.0", "1.0"]
