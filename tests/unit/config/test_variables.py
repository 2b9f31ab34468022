"""Tests for variables in texts: parsing, resolution and restoration."""

from __future__ import annotations

import pytest

from kraal.config.key import ConfigType, Key
from kraal.config.secret_keys import secret_values
from kraal.config.variables import ResolvedConfig, Variable, find_variables, has_variable, substitute

VALUES = {
    Variable("file", "/etc/db", "password"): "hunter2hunter2",
    Variable("env", "", "USER"): "kraal",
    Variable("env", "", "EMPTY"): "",
}
PASSWORD = "${file:/etc/db:password}"  # noqa: S105 - a variable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PASSWORD, "hunter2hunter2"),
        ("${env:USER}", "kraal"),
        ("${env::USER}", "kraal"),
        ("${env:USER}@${env:USER}", "kraal@kraal"),
        ("jdbc:x?u=${env:USER}&p=${file:/etc/db:password}", "jdbc:x?u=kraal&p=hunter2hunter2"),
        ("a${env:EMPTY}b", "ab"),
        ("", ""),
        (None, None),
    ],
)
def test_variables_are_substituted_anywhere(text: str | None, expected: str | None) -> None:
    assert substitute(text, VALUES) == expected


@pytest.mark.parametrize(
    "text", ["${nobody:x}", "${file:/etc/db:user}", "${env}", "$env:USER", "${}", "${env:USER", "{env:USER}"]
)
def test_unknown_variables_stay_unchanged(text: str) -> None:
    assert substitute(text, VALUES) == text


def test_variables_do_not_nest() -> None:
    assert substitute("${env:${env:USER}}", VALUES) == "${env:${env:USER}}"


def test_substituted_values_are_not_resolved_again() -> None:
    assert substitute("${env:USER}", {Variable("env", "", "USER"): PASSWORD}) == PASSWORD


def test_path_ends_at_second_colon() -> None:
    """The path ends at the second colon, as in Java. The rest is the key."""
    assert list(find_variables({"a": "${p:/x:y:z}", "b": None, "c": "${p:k}"})) == [
        Variable("p", "/x", "y:z"),
        Variable("p", "", "k"),
    ]


def test_has_variable_detects_variables_of_any_provider() -> None:
    assert [has_variable(text) for text in (PASSWORD, "a ${x:y} b", "${x}", "", None)] == [
        True,
        True,
        False,
        False,
        False,
    ]


RAW = {
    "name": "n",
    "db.password": PASSWORD,
    "db.url": "jdbc:x?p=" + PASSWORD,
    "user": "${env:USER}",
    "left": "${nobody:x}",
    "gone": None,
}


def test_repr_of_resolved_config_omits_values() -> None:
    resolved_config = ResolvedConfig.of(RAW, VALUES)
    assert resolved_config.config == {
        "name": "n",
        "db.password": "hunter2hunter2",
        "db.url": "jdbc:x?p=hunter2hunter2",
        "user": "kraal",
        "left": "${nobody:x}",
        "gone": None,
    }
    assert "hunter2" not in repr(resolved_config)


@pytest.mark.parametrize(
    ("task_config", "stored_config"),
    [
        pytest.param({"db.password": "hunter2hunter2"}, {"db.password": PASSWORD}, id="same key"),
        pytest.param({"db.password": "another"}, {"db.password": PASSWORD}, id="same key with another value"),
        pytest.param({"other": "hunter2hunter2"}, {"other": PASSWORD}, id="another key"),
        pytest.param({"url": "x:hunter2hunter2@y"}, {"url": f"x:{PASSWORD}@y"}, id="in a longer text"),
        pytest.param({"role": "kraal"}, {"role": "kraal"}, id="short value of another key"),
        pytest.param({"number": "0", "none": None}, {"number": "0", "none": None}, id="unrelated values"),
        pytest.param({"left": "x"}, {"left": "${nobody:x}"}, id="a variable without a provider"),
    ],
)
def test_task_configs_are_stored_with_variables(
    task_config: dict[str, str | None], stored_config: dict[str, str | None]
) -> None:
    """Mirrors AbstractHerder.reverseTransform. Kraal also restores variables in values copied to other keys."""
    assert ResolvedConfig.of(RAW, VALUES).restore_variables(task_config) == stored_config


def test_short_value_is_restored_only_for_secret_keys() -> None:
    resolved_config = ResolvedConfig.of({"a": "${env:PIN}"}, {Variable("env", "", "PIN"): "4711x"})
    assert resolved_config.restore_variables({"password": "4711x", "port": "4711x"}) == {
        "password": "${env:PIN}",
        "port": "4711x",
    }


def test_resolving_restored_config_returns_same_values() -> None:
    resolved_config = ResolvedConfig.of(RAW, VALUES)
    task_config = {"url": "x:hunter2hunter2@y", "db.password": "hunter2hunter2", "number": "1"}
    assert ResolvedConfig.of(resolved_config.restore_variables(task_config), VALUES).config == task_config


def test_secret_values_depend_on_type_then_name() -> None:
    keys = [
        Key(name="phrase", type=ConfigType.PASSWORD),
        Key(name="key.count", type=ConfigType.INT),
        Key(name="token", type=ConfigType.STRING),
    ]
    config = {
        "phrase": "a",
        "key.count": "b",
        "token": "c",
        "my.secret": "d",
        "producer.override.ssl.truststore.certificates": "e",
        "producer.override.ssl.keystore.type": "f",
        "producer.override.ssl.key.password": "g",
        "topic": "h",
        "password": None,
    }
    assert secret_values(config, keys) == ["a", "c", "d", "e", "g"]


def test_credentials_in_other_values_are_secret_values() -> None:
    config = {
        "connection.url": "jdbc:postgresql://me:hunter2@db/x?password=hunter3",
        "jdbc": "jdbc:x;password=${file:/f:p}",
        "my.secret": "x://a:b@c",
        "topic": "password",
    }
    assert secret_values(config) == ["hunter2", "hunter3", "x://a:b@c"]
