"""Tests for the history of configs, which lists changed keys, hides secrets, and is limited in number and bytes."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kraal.core.ids import Config, ConnectorName
from kraal.journal.configs import MAX_VERSIONS, Configs, ConfigWrite, changed_keys

NAME = ConnectorName("orders")
CONFIGS = st.dictionaries(st.text(min_size=1, max_size=20), st.none() | st.text(max_size=2_000), max_size=12)


def create_configs() -> Configs:
    return Configs(256 * 1024, 16 * 1024 * 1024)


def add(configs: Configs, before: Config | None, after: Config | None, ms: int, by: str = "") -> None:
    configs.add(NAME, before, after, ConfigWrite(ms, by))


def test_replaced_version_is_kept_in_the_history() -> None:
    configs = create_configs()
    original, replacement = {"a": "1", "b": "2", "gone": "x"}, {"a": "1", "b": "3", "new": "y"}
    add(configs, None, original, 10, "POST from 10.0.0.1")
    assert configs.read(NAME).entries == ()
    assert configs.last_write(NAME) == ConfigWrite(10, "POST from 10.0.0.1")
    add(configs, original, replacement, 20, "PUT from 10.0.0.2")
    assert [version.to_json(()) for version in configs.read(NAME).entries] == [
        {"ms": 10, "by": "POST from 10.0.0.1", "config": original, "changed": ["b", "gone", "new"]}
    ]
    assert configs.last_write(NAME) == ConfigWrite(20, "PUT from 10.0.0.2")


def test_identical_config_is_not_a_new_version() -> None:
    configs = create_configs()
    add(configs, None, {"a": "1"}, 10, "one")
    add(configs, {"a": "1"}, {"a": "1"}, 20, "two")
    assert configs.read(NAME).entries == ()
    assert configs.last_write(NAME) == ConfigWrite(20, "two")


def test_config_of_a_deleted_connector_is_kept_in_the_history() -> None:
    configs = create_configs()
    add(configs, None, {"a": "1"}, 10)
    add(configs, {"a": "1"}, None, 20)
    assert configs.last_write(NAME) is None
    assert [(version.write.ms, version.changed) for version in configs.read(NAME).entries] == [(10, ())]


def test_secrets_are_hidden_and_changed_keys_are_listed() -> None:
    configs = create_configs()
    original = {
        "db.password": "first-secret",
        "declared": "second-secret",
        "url": "jdbc:x://user:third-secret@host/db",
        "from.file": "${file:/etc/x:password}",
        "kept.token": "${env:TOKEN}",
    }
    add(configs, None, original, 10)
    add(configs, original, {**original, "db.password": "changed", "declared": "changed"}, 20)
    [version] = configs.read(NAME).entries
    assert version.changed == ("db.password", "declared")
    rendered_version = version.to_json({"declared"})
    assert rendered_version["config"] == {
        "db.password": "[hidden]",
        "declared": "[hidden]",
        "url": "jdbc:x://user:[hidden]@host/db",
        "from.file": "${file:/etc/x:password}",
        "kept.token": "${env:TOKEN}",
    }
    assert "secret" not in json.dumps(rendered_version)
    assert "secret" not in repr(version)


def test_last_stored_config_is_current() -> None:
    configs = create_configs()
    for ms in (5, 7):
        configs.record_stored_config(NAME, ConfigWrite(ms))
    assert configs.last_write(NAME) == ConfigWrite(7)
    assert configs.read(NAME).entries == ()
    configs.drop_stored_config(NAME)
    assert configs.last_write(NAME) is None


def test_number_of_versions_is_limited() -> None:
    configs = create_configs()
    for number in range(30):
        add(configs, {"n": str(number)}, {"n": str(number + 1)}, number)
    content = configs.read(NAME)
    assert [version.config["n"] for version in content.entries] == [
        str(n) for n in range(30 - MAX_VERSIONS, 30)
    ]
    assert content.dropped == 30 - MAX_VERSIONS


@given(st.lists(CONFIGS, max_size=20))
def test_versions_are_limited_in_bytes(versions: list[Config]) -> None:
    configs = Configs(10_000, 20_000)
    for number, (before, after) in enumerate(pairwise(versions)):
        name = ConnectorName(f"c{number % 3}")
        configs.add(name, before, after, ConfigWrite(number))
    content = [configs.read(ConnectorName(f"c{number}")).entries for number in range(3)]
    assert all(sum(version.size for version in entries) <= 10_000 for entries in content)
    assert sum(version.size for entries in content for version in entries) <= 20_000
    for entries in content:
        for version in entries:
            assert version.size >= len(json.dumps(dict(version.config), ensure_ascii=False))


def test_null_value_differs_from_a_missing_key() -> None:
    assert changed_keys({"a": None, "b": "1"}, {"b": "1"}) == ("a",)
    assert changed_keys({"a": None}, {"a": None}) == ()
    assert changed_keys({"a": None}, {"a": ""}) == ("a",)
