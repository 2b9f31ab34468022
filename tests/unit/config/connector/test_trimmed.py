"""Values of a connector's config that Connect reads are trimmed; those of plugins, and names, are not."""

from __future__ import annotations

from kraal.config.connector.converters import converter_settings
from kraal.config.connector.trimmed import trim_config


def test_connects_own_values_are_trimmed() -> None:
    config = {
        "name": "n ",
        "connector.class": "C ",
        "topics.regex": " a.* ",
        "offsets.storage.topic": "o\t",
        "key.converter": "K ",
        "file": "f ",
        "topics": None,
    }
    assert trim_config(config) == {
        "name": "n ",
        "connector.class": "C ",
        "topics.regex": "a.*",
        "offsets.storage.topic": "o",
        "key.converter": "K",
        "file": "f ",
    }


def test_a_converters_class_is_trimmed_and_its_settings_are_not() -> None:
    connector = {"key.converter": "K\t", "key.converter.a": "b "}
    assert converter_settings({}, connector, "key.converter") == ("K", {"a": "b "})
    assert converter_settings({"key.converter": " W "}, {}, "key.converter").name == "W"
