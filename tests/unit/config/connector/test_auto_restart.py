"""Tests for the auto-restart keys in worker configs, connector configs and validation responses."""

from __future__ import annotations

import pytest

from kraal.config.connector.auto_restart import SUPERVISION, AutoRestart, RestartScope, parse_policy
from kraal.config.worker.distributed import parse_distributed
from kraal.config.worker.standalone import parse_standalone
from kraal.core.errors import ConfigInvalid
from kraal.plugins.validation.infos import ConfigInfo
from kraal.plugins.validation.validate import describe_plugin
from kraal.plugins.worker_plugins import WorkerPlugins
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
from kraal.testing._simulation.worker import DEFAULTS, fake_registry
from tests.fakes.workers.worker_config import MINIMAL_CONFIG

KEYS = [key.name for key in SUPERVISION]
WORKER_POLICY = AutoRestart(scope=RestartScope.TASK, max_restarts=4, window_s=60, backoff_s=3)
PLUGINS = WorkerPlugins(fake_registry(), parse_standalone(DEFAULTS))
CUSTOM_VALUES = {
    "errors.auto.restart": "all",
    "errors.auto.restart.max": "7",
    "errors.auto.restart.window.ms": "1500",
    "errors.auto.restart.backoff.ms": "250",
}


def validate_config(**config: str) -> dict[str, ConfigInfo]:
    """Validate a connector with these settings, where `__` stands for a dot; return the results by key."""
    keys = {key.replace("__", "."): value for key, value in config.items()}
    infos = PLUGINS.check({"name": "c", "connector.class": FAKE_SOURCE, **keys})
    return {info.value.name: info for info in infos.configs}


def test_auto_restart_is_disabled_by_default() -> None:
    config = parse_standalone(DEFAULTS)
    assert config.auto_restart == AutoRestart(
        scope=RestartScope.NONE, max_restarts=10, window_s=3600, backoff_s=1
    )
    assert config.stall_timeout_s == 60


def test_standalone_and_distributed_workers_accept_auto_restart_keys() -> None:
    expected = AutoRestart(scope=RestartScope.ALL, max_restarts=7, window_s=1.5, backoff_s=0.25)
    custom_settings = {**CUSTOM_VALUES, "task.stall.timeout.ms": "0"}
    for config in (
        parse_standalone({**DEFAULTS, **custom_settings}),
        parse_distributed({**MINIMAL_CONFIG, **custom_settings}),
    ):
        assert (config.auto_restart, config.stall_timeout_s, config.warnings) == (expected, 0, ())


INVALID_VALUES = [
    ("errors.auto.restart", "Task", "String must be one of: none, task, all"),
    ("errors.auto.restart", "", "String must be one of: none, task, all"),
    ("errors.auto.restart.max", "0", "Value must be at least 1"),
    ("errors.auto.restart.max", "1001", "Value must be no more than 1000"),
    ("errors.auto.restart.max", "many", "Not a number of type INT"),
    ("errors.auto.restart.window.ms", "-1", "Value must be at least 1"),
    ("errors.auto.restart.backoff.ms", "0", "Value must be at least 1"),
    ("errors.auto.restart.backoff.ms", "9223372036854775807", "Value must be no more than 3600000"),
]


@pytest.mark.parametrize(
    ("name", "value", "error"), [*INVALID_VALUES, ("task.stall.timeout.ms", "-1", "Value must be at least 0")]
)
def test_invalid_worker_value_is_rejected(name: str, value: str, error: str) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        parse_standalone({**DEFAULTS, name: value})
    assert f"Invalid value {value} for configuration {name}: {error}" in raised.value.errors


@pytest.mark.parametrize(("name", "value", "error"), INVALID_VALUES)
def test_invalid_connector_value_has_connects_error(name: str, value: str, error: str) -> None:
    errors = validate_config(**{name: value})[name].value.errors
    assert f"Invalid value {value} for configuration {name}: {error}" in errors


def test_responses_contain_only_configured_keys() -> None:
    assert not set(KEYS) & set(validate_config())
    infos = validate_config(errors__auto__restart="task")
    assert set(KEYS) & set(infos) == {"errors.auto.restart"}
    assert infos["errors.auto.restart"].value.errors == ()
    assert len(infos) == len(validate_config()) + 1
    assert set(KEYS) <= set(validate_config(**CUSTOM_VALUES))
    for plugin in (FAKE_SOURCE, FAKE_SINK):
        assert not set(KEYS) & {info.key.name for info in describe_plugin(fake_registry(), plugin)}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param({}, WORKER_POLICY, id="worker values"),
        pytest.param(
            {"errors.auto.restart": "none"},
            AutoRestart(scope=RestartScope.NONE, max_restarts=4, window_s=60, backoff_s=3),
            id="one key overridden",
        ),
        pytest.param(
            CUSTOM_VALUES,
            AutoRestart(scope=RestartScope.ALL, max_restarts=7, window_s=1.5, backoff_s=0.25),
            id="connector values",
        ),
        pytest.param(
            {
                "errors.auto.restart": "maybe",
                "errors.auto.restart.max": "x",
                "errors.auto.restart.window.ms": "${a:b}",
            },
            WORKER_POLICY,
            id="invalid values are ignored",
        ),
    ],
)
def test_connector_value_overrides_worker(config: dict[str, str], expected: AutoRestart) -> None:
    assert parse_policy(config, WORKER_POLICY) == expected


def test_null_value_is_ignored() -> None:
    assert parse_policy({"errors.auto.restart": None}, WORKER_POLICY) is WORKER_POLICY
