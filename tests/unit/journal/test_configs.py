"""Earlier configs: without secrets, with the names of the keys that changed, bounded in number and bytes."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kraal.core.ids import Config, ConnectorName
from kraal.journal.configs import MAX_VERSIONS, Configs, Written, changed_keys

NAME = ConnectorName("orders")
CONFIGS = st.dictionaries(st.text(min_size=1, max_size=20), st.none() | st.text(max_size=2_000), max_size=12)


def new() -> Configs:
    return Configs(256 * 1024, 16 * 1024 * 1024)


def add(configs: Configs, before: Config | None, after: Config | None, ms: int, by: str = "") -> None:
    configs.add(NAME, before, after, Written(ms, by))


def test_a_replaced_version_stays_in_the_history() -> None:
    configs = new()
    one, two = {"a": "1", "b": "2", "gone": "x"}, {"a": "1", "b": "3", "new": "y"}
    add(configs, None, one, 10, "POST from 10.0.0.1")
    assert configs.read(NAME).entries == ()
    assert configs.last_write(NAME) == Written(10, "POST from 10.0.0.1")
    add(configs, one, two, 20, "PUT from 10.0.0.2")
    assert [each.to_json(()) for each in configs.read(NAME).entries] == [
        {"ms": 10, "by": "POST from 10.0.0.1", "config": one, "changed": ["b", "gone", "new"]}
    ]
    assert configs.last_write(NAME) == Written(20, "PUT from 10.0.0.2")


def test_the_same_config_is_no_other_version() -> None:
    configs = new()
    add(configs, None, {"a": "1"}, 10, "one")
    add(configs, {"a": "1"}, {"a": "1"}, 20, "two")
    assert configs.read(NAME).entries == ()
    assert configs.last_write(NAME) == Written(20, "two")


def test_the_config_of_a_deleted_connector_stays_in_the_history() -> None:
    configs = new()
    add(configs, None, {"a": "1"}, 10)
    add(configs, {"a": "1"}, None, 20)
    assert configs.last_write(NAME) is None
    assert [(each.written.ms, each.changed) for each in configs.read(NAME).entries] == [(10, ())]


def test_secrets_are_hidden_and_a_changed_one_is_named() -> None:
    configs = new()
    one = {
        "db.password": "first-secret",
        "declared": "second-secret",
        "url": "jdbc:x://user:third-secret@host/db",
        "from.file": "${file:/etc/x:password}",
        "kept.token": "${env:TOKEN}",
    }
    add(configs, None, one, 10)
    add(configs, one, {**one, "db.password": "changed", "declared": "changed"}, 20)
    [version] = configs.read(NAME).entries
    assert version.changed == ("db.password", "declared")
    rendered = version.to_json({"declared"})
    assert rendered["config"] == {
        "db.password": "[hidden]",
        "declared": "[hidden]",
        "url": "jdbc:x://user:[hidden]@host/db",
        "from.file": "${file:/etc/x:password}",
        "kept.token": "${env:TOKEN}",
    }
    assert "secret" not in json.dumps(rendered)
    assert "secret" not in repr(version)


def test_the_last_stored_config_is_current() -> None:
    configs = new()
    for ms in (5, 7):
        configs.found(NAME, Written(ms))
    assert configs.last_write(NAME) == Written(7)
    assert configs.read(NAME).entries == ()
    configs.drop_lost(NAME)
    assert configs.last_write(NAME) is None


def test_number_of_versions_is_limited() -> None:
    configs = new()
    for number in range(30):
        add(configs, {"n": str(number)}, {"n": str(number + 1)}, number)
    content = configs.read(NAME)
    assert [each.config["n"] for each in content.entries] == [str(n) for n in range(30 - MAX_VERSIONS, 30)]
    assert content.dropped == 30 - MAX_VERSIONS


@given(st.lists(CONFIGS, max_size=20))
def test_versions_stay_within_their_bytes(versions: list[Config]) -> None:
    configs = Configs(10_000, 20_000)
    for number, (before, after) in enumerate(pairwise(versions)):
        name = ConnectorName(f"c{number % 3}")
        configs.add(name, before, after, Written(number))
    content = [configs.read(ConnectorName(f"c{number}")).entries for number in range(3)]
    assert all(sum(each.size for each in entries) <= 10_000 for entries in content)
    assert sum(each.size for entries in content for each in entries) <= 20_000
    for entries in content:
        for each in entries:
            assert each.size >= len(json.dumps(dict(each.config), ensure_ascii=False))


def test_a_null_is_a_value_of_its_own() -> None:
    assert changed_keys({"a": None, "b": "1"}, {"b": "1"}) == ("a",)
    assert changed_keys({"a": None}, {"a": None}) == ()
    assert changed_keys({"a": None}, {"a": ""}) == ("a",)
