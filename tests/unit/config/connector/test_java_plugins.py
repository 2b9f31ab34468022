"""Tests for the connector key `plugins.jvm`."""

from __future__ import annotations

from kraal.config.connector.java_plugins import java_keys
from kraal.config.key import ConfigDef


def test_response_contains_key_only_if_configured() -> None:
    assert java_keys({"plugin.path": "/p"}) == []
    assert [key.name for key in java_keys({"plugins.jvm": None})] == ["plugins.jvm"]


def test_invalid_value_of_plugins_jvm_is_rejected() -> None:
    for value, error_count in {"own": 0, "shared": 0, None: 0, "OWN": 1, "": 1}.items():
        (config_value,) = ConfigDef(java_keys({"plugins.jvm": value})).validate({"plugins.jvm": value})
        assert len(config_value.errors) == error_count, config_value
