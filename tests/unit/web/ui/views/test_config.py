from __future__ import annotations

from typing import Any

from kraal.config.hidden import HIDDEN
from kraal.config.named_plugins import named_plugins
from web.ui.views.config import (
    Change,
    Kind,
    differences,
    entries,
    history_differences,
    parse_config,
    password_keys,
    without_unchanged,
)


def test_secrets_are_masked_by_name_by_type_and_in_urls() -> None:
    config = {
        "phrase": "x1",
        "db.password": "x2",
        "url": "jdbc:pg://me:x3@host/db",
        "topic": "t",
        "none": None,
        "e": "",
    }
    by_key = {entry.key: entry for entry in entries(config, {"phrase"})}
    assert [by_key[key].cell.text for key in ("phrase", "db.password")] == [HIDDEN, HIDDEN]
    assert by_key["url"].cell.text == f"jdbc:pg://me:{HIDDEN}@host/db"
    assert [entry.key for entry in by_key.values() if entry.is_masked] == ["db.password", "phrase", "url"]
    assert (by_key["none"].cell.kind, by_key["e"].cell.kind, by_key["topic"].cell.kind) == (
        Kind.NULL,
        Kind.EMPTY,
        Kind.VALUE,
    )


def test_differences_list_each_key_once_without_secrets() -> None:
    old_config = {"a": "1", "b": "2", "db.password": "old", "gone": None, "same": "s"}
    new_config = {"a": "1", "b": "3", "db.password": "new", "more": "", "same": "s"}
    by_key = {difference.key: difference for difference in differences(old_config, new_config)}
    assert {key: difference.change for key, difference in by_key.items()} == {
        "a": Change.SAME,
        "b": Change.CHANGED,
        "db.password": Change.CHANGED,
        "gone": Change.REMOVED,
        "more": Change.ADDED,
        "same": Change.SAME,
    }
    assert by_key["db.password"].secret
    assert not by_key["b"].secret
    assert by_key["db.password"].before.text == by_key["db.password"].after.text == HIDDEN
    assert by_key["more"].before.kind is Kind.ABSENT
    assert by_key["more"].after.kind is Kind.EMPTY
    assert [difference.key for difference in without_unchanged(list(by_key.values()))] == [
        "b",
        "db.password",
        "gone",
        "more",
    ]


def test_added_secret_is_a_visible_change() -> None:
    (difference,) = differences({}, {"db.password": "new"})
    assert (difference.change, difference.secret, difference.after.text) == (Change.ADDED, False, HIDDEN)


def test_versions_are_compared_with_their_successors() -> None:
    response: Any = {
        "current": {"ms": 3, "config": {"a": "3", "db.password": HIDDEN}},
        "earlier": [
            {"ms": 2, "config": {"a": "2", "db.password": HIDDEN}, "changed": ["a", "db.password"]},
            {"ms": 1, "config": {"db.password": HIDDEN}, "changed": ["a"]},
        ],
    }
    first, second = (
        without_unchanged(version_differences) for version_differences in history_differences(response)
    )
    assert [
        (difference.key, difference.before.text, difference.after.text, difference.secret)
        for difference in first
    ] == [
        ("a", "2", "3", False),
        ("db.password", HIDDEN, HIDDEN, True),
    ]
    assert [(difference.key, difference.change) for difference in second] == [("a", Change.ADDED)]
    assert list(history_differences([])) == []


def test_config_plugins_have_key_prefixes() -> None:
    config = {
        "connector.class": "C",
        "value.converter": "V",
        "key.converter": None,
        "transforms": "a, b,,a",
        "transforms.a.type": "T",
        "predicates": "p",
        "predicates.p.type": "P",
    }
    assert [(named_plugin.prefix, named_plugin.plugin) for named_plugin in named_plugins(config)] == [
        ("", "C"),
        ("value.converter.", "V"),
        ("transforms.a.", "T"),
        ("predicates.p.", "P"),
    ]


def test_password_keys_have_the_prefix_of_their_plugin() -> None:
    keys = [{"name": "basic.auth.user", "type": "PASSWORD"}, {"name": "x", "type": "STRING"}, "odd"]
    assert password_keys(keys, "value.converter.") == {"value.converter.basic.auth.user"}  # type: ignore[arg-type]
    assert password_keys({"error_code": 404}) == set()


def test_non_string_values_become_strings() -> None:
    assert parse_config({"a": 1, "b": True, "c": None, "d": "x"}) == {
        "a": "1",
        "b": "true",
        "c": None,
        "d": "x",
    }
    assert parse_config([1]) == {}
