"""Tests that config provider references in configs are resolved only where a config is used."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence

import pytest
from typing_extensions import override

from actors.messages.herder import PutConfig, RestartConnector, SetTargetState
from kraal.cluster.views import rest as view
from kraal.config.provider import ConfigData, ConfigProvider
from kraal.core.errors import ConfigInvalid, ProviderFailed
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.plugins.config_providers import Providers
from kraal.plugins.registry import Registry
from kraal.protocol.records import TaskCommitRecord, TaskConfigRecord, decode
from kraal.stores.memory import MemoryLog
from kraal.testing._simulation.plugins import FakeSourceConnector
from kraal.testing._simulation.worker import EmbeddedWorker, fake_registry

NAME = ConnectorName("numbers")
T0, T1 = TaskId(NAME, 0), TaskId(NAME, 1)
CLASS = "kraal.testing.CopyingSourceConnector"
STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
PASSWORD = "${k:p:password}"  # noqa: S105 - a variable


class PasswordProvider(ConfigProvider):
    """A config provider whose password, TTL and error a test can change."""

    def __init__(self, ttl_ms: int | None = None) -> None:
        self.password = "hunter2hunter2"  # noqa: S105 - for a test
        self.ttl_ms = ttl_ms
        self.error: Exception | None = None

    @override
    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        if self.error is not None:
            raise self.error
        data = {"password": self.password} if "password" in keys else {}
        return ConfigData(data=data, ttl_ms=self.ttl_ms)


class CopyingConnector(FakeSourceConnector):
    """A connector that copies its config to its tasks.

    The method that the key `fail.in` names raises an error that contains the password.
    """

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        if self._config.get("fail.in") == "task_configs":
            raise RuntimeError(f"cannot log in with {self._config['password']}")
        url = f"db://me:{self._config['password']}@host"
        return [{**self._config, "number": str(n), "url": url} for n in range(max_tasks)]

    @override
    def _record_call(self, method: str) -> None:
        password = self._config["password"]
        if self._config.get("fail.in") == method or (method == "start" and password.startswith("wrong")):
            raise RuntimeError(f"cannot log in with {password}")
        super()._record_call(method)


def registry() -> Registry:
    return Registry.of(
        {CLASS: CopyingConnector, STRING_CONVERTER: fake_registry().converter_class(STRING_CONVERTER)}
    )


def create_worker(provider: PasswordProvider, seed: int = 0) -> EmbeddedWorker:
    CopyingConnector.calls.clear()
    return EmbeddedWorker(seed=seed, registry=registry(), providers=Providers({"k": provider}))


def config(**overrides: str) -> dict[str, str | None]:
    settings = {key.replace("__", "."): value for key, value in overrides.items()}
    return {"connector.class": CLASS, "tasks.max": "2", "password": PASSWORD, **settings}


def all_text(worker: EmbeddedWorker) -> str:
    """Return the text of all stored records and REST responses."""
    record_logs = [worker.config_log, worker.status_log]
    records = [record for log in record_logs for record in log.read(0, 10_000)]
    responses = [
        view.connector_info(worker.snapshot, NAME),
        view.connector_status(worker.snapshot, NAME),
        view.task_infos(worker.snapshot, NAME),
    ]
    return repr(records) + json.dumps(responses)


def task_passwords(worker: EmbeddedWorker) -> list[str]:
    runs = [worker.fake.find_run(task) for task in (T0, T1)]
    return [run.spec.task_config["password"] for run in runs if run is not None]


@pytest.mark.parametrize("seed", range(4))
def test_values_are_resolved_and_variables_are_stored(seed: int) -> None:
    worker = create_worker(PasswordProvider(), seed)
    worker.create(NAME, config())
    assert worker.states(NAME) == ["RUNNING"] * 3
    run = worker.fake.find_run(T1)
    assert run is not None
    assert task_passwords(worker) == ["hunter2hunter2"] * 2
    assert run.spec.task_config["url"] == "db://me:hunter2hunter2@host"
    assert run.spec.connector_config["password"] == PasswordProvider().password
    assert "hunter2" not in repr(run.spec)
    assert "hunter2" not in all_text(worker)
    stored_config = worker.snapshot.config.connectors[NAME].tasks[1]
    assert (stored_config["password"], stored_config["url"]) == (PASSWORD, f"db://me:{PASSWORD}@host")


def test_unchanged_task_configs_with_variables_are_not_rewritten() -> None:
    worker = create_worker(PasswordProvider())
    worker.create(NAME, config())
    tasks_version = worker.snapshot.config.connectors[NAME].tasks_version
    worker.ask(RestartConnector(name=NAME))
    worker.run()
    assert worker.snapshot.config.connectors[NAME].tasks_version == tasks_version


@pytest.mark.parametrize("method", ["start", "task_configs"])
def test_resolved_values_in_plugin_errors_are_hidden(method: str, caplog: pytest.LogCaptureFixture) -> None:
    worker = create_worker(PasswordProvider())
    with caplog.at_level(logging.DEBUG):
        worker.ask(PutConfig(name=NAME, config=config(fail__in=method)))
        worker.run()
    text = all_text(worker) + "".join(record.getMessage() for record in caplog.records)
    assert "cannot log in with [hidden]" in text
    assert "hunter2" not in text


def test_task_traces_hide_resolved_values() -> None:
    worker = create_worker(PasswordProvider())
    worker.create(NAME, config())
    worker.fake.fail(T0, "no login with hunter2hunter2")
    worker.run()
    assert worker.status(NAME)["tasks"][0]["trace"] == "no login with [hidden]"
    assert "hunter2" not in all_text(worker)


def test_provider_error_rejects_the_config_and_names_the_key() -> None:
    provider = PasswordProvider()
    worker = create_worker(provider)
    provider.error = ProviderFailed("Could not read properties from file p")
    with pytest.raises(
        ConfigInvalid, match=r" for configuration \S+: Could not read properties from file p\n"
    ):
        worker.create(NAME, config())


def test_config_is_validated_with_resolved_values() -> None:
    worker = create_worker(PasswordProvider())
    with pytest.raises(ConfigInvalid) as error_info:
        worker.create(NAME, config(tasks__max=PASSWORD))
    error = (
        "Invalid value for configuration 'tasks.max': "
        "the value resolved from the config provider reference failed validation"
    )
    assert error in str(error_info.value)
    assert "hunter2" not in str(error_info.value)


def test_provider_failing_at_start_fails_the_connector_and_its_tasks() -> None:
    provider = PasswordProvider()
    first_worker = create_worker(provider)
    first_worker.create(NAME, config())
    provider.error = RuntimeError("sealed")
    assert isinstance(first_worker.config_log, MemoryLog)
    second_worker = EmbeddedWorker(
        registry=registry(), providers=Providers({"k": provider}), config_log=first_worker.config_log
    )
    status = second_worker.status(NAME)
    assert second_worker.states(NAME) == ["FAILED"] * 3
    text = "The config provider k could not read password at p: sealed"
    assert text in status["connector"]["trace"]
    assert text in status["tasks"][1]["trace"]
    provider.error = None
    second_worker.ask(RestartConnector(name=NAME, include_tasks=True, only_failed=True))
    second_worker.run()
    assert second_worker.states(NAME) == ["RUNNING"] * 3


def test_restarted_task_uses_the_latest_value() -> None:
    provider = PasswordProvider()
    worker = create_worker(provider)
    worker.create(NAME, config())
    provider.password = "another password"  # noqa: S105 - for a test
    worker.ask(RestartConnector(name=NAME, include_tasks=True))
    worker.run()
    assert task_passwords(worker) == ["another password"] * 2


# -- expiring values ---------------------------------------------------------------------------------------


def start_count() -> int:
    return sum(method == "start" for _, method in CopyingConnector.calls)


def commit_count(worker: EmbeddedWorker) -> int:
    records = [decode(r.key, r.value) for r in worker.config_log.read(0, 10_000)]
    assert any(isinstance(record, TaskConfigRecord) for record in records)
    return sum(isinstance(record, TaskCommitRecord) for record in records)


def test_expired_values_restart_the_connector_and_its_tasks() -> None:
    provider = PasswordProvider(ttl_ms=60_000)
    worker = create_worker(provider)
    worker.create(NAME, config())
    provider.password = "another password"  # noqa: S105 - for a test
    worker.advance(59)
    assert (start_count(), task_passwords(worker)) == (1, ["hunter2hunter2"] * 2)
    worker.advance(2)
    assert (start_count(), task_passwords(worker)) == (2, ["another password"] * 2)
    assert worker.states(NAME) == ["RUNNING"] * 3
    worker.advance(60)
    assert start_count() == 3


def test_unchanged_values_do_not_restart_tasks() -> None:
    worker = create_worker(PasswordProvider(ttl_ms=60_000))
    worker.create(NAME, config())
    opened_count = len(worker.fake.opened)
    worker.advance(61)
    assert start_count() == 2
    assert (len(worker.fake.opened), commit_count(worker)) == (opened_count, 1)


@pytest.mark.parametrize("steps", range(6))
def test_new_values_reach_tasks_despite_a_herder_death(steps: int) -> None:
    provider = PasswordProvider(ttl_ms=60_000)
    worker = create_worker(provider)
    worker.create(NAME, config())
    provider.password = "another password"  # noqa: S105 - for a test
    worker.advance(59)
    clock = worker.scheduler.clock
    while start_count() == 1:
        if not worker.scheduler.step():
            clock.advance_to(clock.next_due() or clock.now())
    for _ in range(steps):
        worker.scheduler.step()
    worker.crash("herder")
    worker.run()
    worker.advance(30)
    assert task_passwords(worker) == ["another password"] * 2


def test_new_values_rewrite_task_configs_once() -> None:
    provider = PasswordProvider(ttl_ms=60_000)
    worker = create_worker(provider)
    worker.create(NAME, config())
    provider.password = "another password"  # noqa: S105 - for a test
    worker.advance(61)
    worker.crash("herder")
    worker.run()
    worker.advance(30)
    assert commit_count(worker) == 2


@pytest.mark.parametrize(("reload", "expected"), [("none", 1), ("restart", 2)])
def test_reload_can_be_disabled(reload: str, expected: int) -> None:
    worker = create_worker(PasswordProvider(ttl_ms=60_000))
    worker.create(NAME, config(config__action__reload=reload))
    worker.advance(61)
    assert start_count() == expected


def test_zero_ttl_is_raised_to_the_minimum() -> None:
    worker = create_worker(PasswordProvider(ttl_ms=0))
    worker.create(NAME, config())
    worker.advance(10)
    assert 5 <= start_count() <= 12


def test_expiry_timer_of_a_replaced_config_does_not_restart_the_connector() -> None:
    provider = PasswordProvider(ttl_ms=60_000)
    worker = create_worker(provider)
    worker.create(NAME, config())
    provider.ttl_ms = None
    worker.advance(30)
    worker.ask(PutConfig(name=NAME, config=config(topic="x")))
    worker.run()
    assert start_count() == 2
    worker.advance(120)
    assert start_count() == 2


def test_failed_connector_is_restarted_with_new_values() -> None:
    provider = PasswordProvider(ttl_ms=60_000)
    provider.password = "wrong password"  # noqa: S105 - for a test
    worker = create_worker(provider)
    worker.create(NAME, config())
    assert worker.states(NAME) == ["FAILED"]
    assert worker.status(NAME)["connector"]["trace"].startswith("RuntimeError: cannot log in with [hidden]\n")
    provider.password = "right password"  # noqa: S105 - for a test
    worker.advance(61)
    assert worker.states(NAME) == ["RUNNING"] * 3


def test_provider_failing_at_expiry_fails_only_the_connector() -> None:
    provider = PasswordProvider(ttl_ms=60_000)
    worker = create_worker(provider)
    worker.create(NAME, config())
    provider.error = RuntimeError("sealed")
    worker.advance(61)
    assert worker.states(NAME) == ["FAILED", "RUNNING", "RUNNING"]
    assert "sealed" in worker.status(NAME)["connector"]["trace"]


def test_resumed_connector_uses_new_values() -> None:
    provider = PasswordProvider(ttl_ms=60_000)
    worker = create_worker(provider)
    worker.create(NAME, config())
    worker.ask(SetTargetState(name=NAME, target=TargetState.PAUSED))
    worker.run()
    provider.password = "another password"  # noqa: S105 - for a test
    worker.advance(61)
    assert worker.states(NAME) == ["PAUSED"] * 3
    worker.ask(SetTargetState(name=NAME, target=TargetState.STARTED))
    worker.run()
    worker.advance(1)
    assert task_passwords(worker) == ["another password"] * 2
