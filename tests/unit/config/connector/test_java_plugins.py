"""The key of connectors that says in which JVM they run."""

from __future__ import annotations

from kraal.config.connector.java_plugins import java_keys
from kraal.config.key import ConfigDef


def test_answers_have_the_key_only_where_a_config_has_it() -> None:
    assert java_keys({"plugin.path": "/p"}) == []
    assert [key.name for key in java_keys({"plugins.jvm": None})] == ["plugins.jvm"]


def test_a_value_that_is_not_allowed_is_refused() -> None:
    for value, wrong in {"own": 0, "shared": 0, None: 0, "OWN": 1, "": 1}.items():
        (checked,) = ConfigDef(java_keys({"plugins.jvm": value})).validate({"plugins.jvm": value})
        assert len(checked.errors) == wrong, checked
