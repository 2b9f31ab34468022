"""Tests that values of Connect's keys except `name` and `connector.class` are trimmed, unlike values of plugin keys."""

from __future__ import annotations

from kraal.config.connector.converters import converter_settings
from kraal.config.connector.trimmed import trim_config


def test_values_of_connects_keys_are_trimmed() -> None:
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


def test_converter_class_is_trimmed_but_not_its_settings() -> None:
    connector = {"key.converter": "K\t", "key.converter.a": "b "}
    assert converter_settings({}, connector, "key.converter") == ("K", {"a": "b "})
    assert converter_settings({"key.converter": " W "}, {}, "key.converter").class_name == "W"
