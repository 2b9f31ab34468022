"""Tests that each client setting has an effect or is documented as having no effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kraal.config.clients.kafka_python import kafka_python_options
from kraal.config.clients.keys import client_def
from kraal.config.clients.librdkafka import find_unsupported, librdkafka_options
from kraal.config.key import ConfigType, Key
from kraal.core.errors import ConfigInvalid
from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.client_options import consumer_options, member_config, offset_reset, producer_options

WORKER = {"bootstrap.servers": "127.0.0.1:9092"}
TASK = TaskId(ConnectorName("c"), 0)
BuildOptions = Callable[[Mapping[str, str], Path], object]


def sample_values(key: Key) -> tuple[str, ...]:
    """Return values of the key's type. At least one value differs from the default."""
    if key.type is ConfigType.BOOLEAN:
        return "true", "false"
    if key.type in {ConfigType.INT, ConfigType.SHORT, ConfigType.LONG}:
        return ("12345",)
    return ("0.123",) if key.type is ConfigType.DOUBLE else ("another",)


def create_consumer_options(settings: Mapping[str, str], _scratch: Path) -> object:
    override = {f"consumer.override.{name}": value for name, value in settings.items()}
    options = consumer_options(WORKER, override, "c"), member_config(WORKER, override, TASK)
    return options, offset_reset(WORKER, override)


def create_producer_options(settings: Mapping[str, str], _scratch: Path) -> object:
    override = {f"producer.override.{name}": value for name, value in settings.items()}
    return producer_options(WORKER, override, "c")


def create_admin_options(settings: Mapping[str, str], scratch: Path) -> object:
    def return_login(login: object) -> Any:
        return login

    worker = {**WORKER, **settings}
    return librdkafka_options(worker), kafka_python_options(worker, scratch=scratch, tokens=return_login)


CASES = [
    *[
        pytest.param(key, create_consumer_options, id=f"consumer {key.name}")
        for key in client_def("consumer")
    ],
    *[
        pytest.param(key, create_producer_options, id=f"producer {key.name}")
        for key in client_def("producer")
    ],
    *[
        pytest.param(key, create_admin_options, id=f"admin {key.name}")
        for key in client_def("admin")
        if not key.name.startswith(("ssl.", "sasl."))  # security settings are converted together
    ],
]


@pytest.mark.parametrize(("key", "build_options"), CASES)
def test_setting_has_effect_or_is_documented_without_effect(
    key: Key, build_options: BuildOptions, tmp_path: Path
) -> None:
    if key.no_effect:
        assert "Has no effect" in (key.documentation or "")
        return
    try:
        option_sets = [build_options({key.name: value}, tmp_path) for value in sample_values(key)]
    except ConfigInvalid:  # a validated setting has an effect
        return
    assert any(options != build_options({}, tmp_path) for options in option_sets)


def test_settings_that_cause_warnings_are_documented_without_effect() -> None:
    unsupported_keys = find_unsupported({key.name: "" for key in client_def("admin")})
    assert unsupported_keys
    assert [name for name in unsupported_keys if not client_def("admin")[name].no_effect] == []
