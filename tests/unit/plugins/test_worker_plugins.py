from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection

import pytest
from typing_extensions import override

from kraal.config.provider import ConfigData, ConfigProvider
from kraal.config.worker.standalone import parse_standalone
from kraal.connectors.mirror.source import MirrorSourceConnector
from kraal.core.errors import BadRequest, ConfigInvalid, PluginFailed, ProviderFailed
from kraal.core.ids import Config
from kraal.core.secrets import secrets
from kraal.plugins import worker_plugins
from kraal.plugins.config_providers import Providers
from kraal.plugins.registry import Registry
from kraal.plugins.validation.infos import ConfigInfos, ConfigValueInfo
from kraal.plugins.worker_plugins import WorkerPlugins
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
from kraal.testing._simulation.worker import DEFAULTS, fake_registry

PLUGINS = WorkerPlugins(fake_registry(), parse_standalone(DEFAULTS))


def test_connector_type_is_determined_by_the_class() -> None:
    kinds = [
        PLUGINS.connector_type({"connector.class": name})
        for name in (FAKE_SOURCE, FAKE_SINK, "no.such", None)
    ]
    assert kinds == ["source", "sink", "unknown", "unknown"]


def test_mirror_tracks_offsets_unless_offset_syncs_are_disabled() -> None:
    mirror = {"connector.class": "MirrorSourceConnector"}
    plugins = WorkerPlugins(Registry.of({"MirrorSourceConnector": MirrorSourceConnector}), PLUGINS.defaults)
    assert plugins.tracks_offsets(mirror)
    assert not plugins.tracks_offsets({**mirror, "emit.offset-syncs.enabled": "False"})
    for name in (FAKE_SOURCE, FAKE_SINK, "no.such", None):
        assert not PLUGINS.tracks_offsets({"connector.class": name})


def test_unused_keys_are_logged_when_the_connector_starts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = {"name": "n", "connector.class": FAKE_SOURCE, "offsets.storage.topic": "t", "tasks.max": "1"}
    with caplog.at_level(logging.WARNING):
        PLUGINS.make(config)
    assert [record.getMessage() for record in caplog.records] == [
        "Connector n: these settings have no effect: offsets.storage.topic"
    ]


@pytest.mark.parametrize("enable", ["true", "false"])
def test_topic_creation_rules_are_validated_only_when_the_connector_starts(enable: str) -> None:
    """Config validation does not check the rules, as in Java."""
    defaults = parse_standalone({**DEFAULTS, "topic.creation.enable": enable})
    plugins = WorkerPlugins(fake_registry(), defaults)
    config = {"name": "n", "connector.class": FAKE_SOURCE, "topic.creation.default.partitions": "0"}
    assert plugins.check(config).error_count == 0
    if enable == "false":
        plugins.make(config)
        return
    with pytest.raises(ConfigInvalid) as error:
        plugins.make(config)
    missing_error, range_error = error.value.errors
    assert missing_error.endswith('"topic.creation.default.replication.factor" which has no default value.')
    assert range_error.startswith("Invalid value 0 for configuration topic.creation.default.partitions: ")


class FakeProvider(ConfigProvider):
    """A provider of four values. It fails for the path `broken`."""

    @override
    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        if path == "broken":
            raise ProviderFailed("Could not read properties from file broken")
        values_by_key = {"password": "hunter2hunter2", "class": FAKE_SOURCE, "many": "so many", "short": "x"}
        return ConfigData(data={key: values_by_key[key] for key in keys if key in values_by_key})


PLUGINS_WITH_PROVIDER = WorkerPlugins(
    fake_registry(), parse_standalone(DEFAULTS), Providers({"k": FakeProvider()})
)


INVALID_RESOLVED_VALUE = (
    "Invalid value for configuration '%s': "
    "the value resolved from the config provider reference failed validation"
)


def get_value(infos: ConfigInfos, key: str) -> ConfigValueInfo:
    [value] = [info.value for info in infos.configs if info.value.name == key]
    return value


def test_connector_class_can_be_a_variable() -> None:
    assert PLUGINS_WITH_PROVIDER.connector_type({"connector.class": "${k:class}"}) == "source"
    assert PLUGINS_WITH_PROVIDER.connector_type({"connector.class": "${k:broken:class}"}) == "unknown"


def test_validation_uses_resolved_values_and_returns_variables() -> None:
    config = {
        "name": "n",
        "connector.class": "${k:class}",
        "tasks.max": "${k:many}",
        "errors.tolerance": "${k:short}",
        "producer.override.sasl.jaas.config": "${k:password}",
        "unknown": "${nobody:x}",
    }
    infos = PLUGINS_WITH_PROVIDER.check(config)
    assert infos.name == "${k:class}"
    assert get_value(infos, "connector.class").value == "${k:class}"
    for key, text in (("tasks.max", "${k:many}"), ("errors.tolerance", "${k:short}")):
        assert get_value(infos, key) == ConfigValueInfo(
            name=key, value=text, recommended_values=(), errors=(INVALID_RESOLVED_VALUE % key,), visible=True
        )
    assert infos.error_count == len(infos.errors) == 2
    assert get_value(infos, "producer.override.sasl.jaas.config").value == "${k:password}"
    text = json.dumps(infos.to_json())
    assert "hunter2" not in text
    assert "so many" not in text


def test_password_with_literal_text_next_to_a_variable_is_hidden() -> None:
    config = {
        "name": "n",
        "connector.class": FAKE_SOURCE,
        "producer.override.sasl.jaas.config": "own ${k:password}",
    }
    assert (
        get_value(PLUGINS_WITH_PROVIDER.check(config), "producer.override.sasl.jaas.config").value
        == "[hidden]"
    )


def test_variable_without_a_provider_is_validated_as_text() -> None:
    config = {"name": "n", "connector.class": FAKE_SOURCE, "tasks.max": "${nobody:x}"}
    assert PLUGINS_WITH_PROVIDER.check(config).to_json() == PLUGINS.check(config).to_json()
    assert len(get_value(PLUGINS_WITH_PROVIDER.check(config), "tasks.max").errors) == 2


@pytest.mark.parametrize(
    "check",
    [PLUGINS_WITH_PROVIDER.check, lambda config: PLUGINS_WITH_PROVIDER.check_for_rest(FAKE_SOURCE, config)],
)
def test_config_providers_of_a_connector_are_ignored(check: Callable[[Config], ConfigInfos]) -> None:
    provider_keys = {
        "config.providers": "k",
        "config.providers.k.class": "Other",
        "config.providers.k.param.x": "${k:broken:y}",
    }
    config = {"name": "n", "connector.class": FAKE_SOURCE, "config.providers2": "x"}
    infos = check({**config, **provider_keys})
    assert infos.to_json() == check(config).to_json()
    assert infos.error_count == 0


def test_validation_of_a_config_without_variables_is_unchanged() -> None:
    config = {"name": "n", "connector.class": FAKE_SOURCE, "tasks.max": "x"}
    assert PLUGINS_WITH_PROVIDER.check(config).to_json() == PLUGINS.check(config).to_json()


def test_secrets_in_the_config_are_redacted_in_errors() -> None:
    config = {"name": "n", "connector.class": "NoSuch", "db.password": "my own password"}
    with pytest.raises(BadRequest, match="which name matches NoSuch, available"):
        PLUGINS_WITH_PROVIDER.check(config)
    assert secrets.scrub("my own password") == "[hidden]"
    invalid_infos = PLUGINS_WITH_PROVIDER.check(
        {**config, "connector.class": FAKE_SOURCE, "tasks.max": "my own password"}
    )
    assert (
        get_value(invalid_infos, "tasks.max")
        .errors[0]
        .startswith("Invalid value [hidden] for configuration tasks.max")
    )


def test_resolved_class_name_is_redacted_in_errors() -> None:
    with pytest.raises(BadRequest) as error:
        PLUGINS_WITH_PROVIDER.check({"name": "n", "connector.class": "${k:password}"})
    assert "which name matches [hidden], available" in str(error.value)


@pytest.mark.parametrize("key", ["x", "tasks.max"])
def test_provider_failure_is_an_error_of_the_key(key: str) -> None:
    config = {"name": "n", "connector.class": FAKE_SOURCE, "y": "${k:password}", key: "${k:broken:y}"}
    error = (
        f"Invalid value ${{k:broken:y}} for configuration {key}: Could not read properties from file broken"
    )
    for infos in (
        PLUGINS_WITH_PROVIDER.check(config),
        PLUGINS_WITH_PROVIDER.check_for_rest(FAKE_SOURCE, config),
    ):
        assert (infos.error_count, infos.errors) == (1, (error,))
        assert (get_value(infos, key).value, get_value(infos, key).errors) == ("${k:broken:y}", (error,))
    with pytest.raises(BadRequest, match=r"for configuration connector\.class: Could not read properties"):
        PLUGINS_WITH_PROVIDER.check({**config, "connector.class": "${k:broken:y}"})


def test_plugin_exception_in_rest_validation_starts_with_its_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise PluginFailed("boom", "java.lang.IllegalStateException: boom\n\tat org.acme.Sink")

    monkeypatch.setattr(worker_plugins, "validate_for_rest", fail)
    with pytest.raises(PluginFailed, match=r"^java\.lang\.IllegalStateException: boom$"):
        PLUGINS.check_for_rest(FAKE_SOURCE, {"connector.class": FAKE_SOURCE})


def test_rest_validation_checks_the_plugin_in_the_path() -> None:
    valid_config = {"name": "n", "connector.class": FAKE_SOURCE}
    assert PLUGINS_WITH_PROVIDER.check_for_rest("FakeSource", valid_config).error_count == 0
    with pytest.raises(BadRequest, match="does not match request type Other"):
        PLUGINS_WITH_PROVIDER.check_for_rest("Other", valid_config)
    with pytest.raises(BadRequest, match=r"^Failed to find"):
        PLUGINS_WITH_PROVIDER.check_for_rest("Such", {"name": "n", "connector.class": "NoSuch"})
