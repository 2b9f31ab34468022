"""Variables in texts: parsing, resolution and restoration."""

from __future__ import annotations

import pytest

from kraal.config.key import ConfigType, Key
from kraal.config.secret_keys import secret_values
from kraal.config.variables import Resolved, Variable, find_variables, has_variable, substitute

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
def test_variables_are_replaced_wherever_they_stand(text: str | None, expected: str | None) -> None:
    assert substitute(text, VALUES) == expected


@pytest.mark.parametrize(
    "text", ["${nobody:x}", "${file:/etc/db:user}", "${env}", "$env:USER", "${}", "${env:USER", "{env:USER}"]
)
def test_unknown_variables_stay_unchanged(text: str) -> None:
    assert substitute(text, VALUES) == text


def test_variables_do_not_nest() -> None:
    assert substitute("${env:${env:USER}}", VALUES) == "${env:${env:USER}}"


def test_a_value_that_looks_like_a_variable_is_not_resolved_again() -> None:
    assert substitute("${env:USER}", {Variable("env", "", "USER"): PASSWORD}) == PASSWORD


def test_a_path_may_hold_what_a_key_may_not() -> None:
    """As in Java: the path ends at the second colon, the rest is the key."""
    assert list(find_variables({"a": "${p:/x:y:z}", "b": None, "c": "${p:k}"})) == [
        Variable("p", "/x", "y:z"),
        Variable("p", "", "k"),
    ]


def test_whether_there_is_a_variable_does_not_depend_on_who_knows_it() -> None:
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


def test_the_repr_of_a_resolved_config_contains_no_values() -> None:
    resolved = Resolved.of(RAW, VALUES)
    assert resolved.config == {
        "name": "n",
        "db.password": "hunter2hunter2",
        "db.url": "jdbc:x?p=hunter2hunter2",
        "user": "kraal",
        "left": "${nobody:x}",
        "gone": None,
    }
    assert "hunter2" not in repr(resolved)


@pytest.mark.parametrize(
    ("task", "stored"),
    [
        pytest.param({"db.password": "hunter2hunter2"}, {"db.password": PASSWORD}, id="its own key"),
        pytest.param({"db.password": "another"}, {"db.password": PASSWORD}, id="as Java, whatever it is"),
        pytest.param({"other": "hunter2hunter2"}, {"other": PASSWORD}, id="under another key"),
        pytest.param({"url": "x:hunter2hunter2@y"}, {"url": f"x:{PASSWORD}@y"}, id="in a longer text"),
        pytest.param({"role": "kraal"}, {"role": "kraal"}, id="an everyday word stays"),
        pytest.param({"number": "0", "none": None}, {"number": "0", "none": None}, id="nothing of it"),
        pytest.param({"left": "x"}, {"left": "${nobody:x}"}, id="a variable without a provider"),
    ],
)
def test_task_configs_are_stored_with_variables(
    task: dict[str, str | None], stored: dict[str, str | None]
) -> None:
    """Source: AbstractHerder.reverseTransform; the last three of another key are ours."""
    assert Resolved.of(RAW, VALUES).as_written(task) == stored


def test_a_short_value_is_put_back_only_under_a_key_that_sounds_like_a_secret() -> None:
    resolved = Resolved.of({"a": "${env:PIN}"}, {Variable("env", "", "PIN"): "4711x"})
    assert resolved.as_written({"password": "4711x", "port": "4711x"}) == {
        "password": "${env:PIN}",
        "port": "4711x",
    }


def test_resolving_again_gives_the_same() -> None:
    resolved = Resolved.of(RAW, VALUES)
    task = {"url": "x:hunter2hunter2@y", "db.password": "hunter2hunter2", "number": "1"}
    assert Resolved.of(resolved.as_written(task), VALUES).config == task


def test_secret_values_go_by_type_first_and_by_name_else() -> None:
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


def test_credentials_within_other_values_are_secret_values() -> None:
    config = {
        "connection.url": "jdbc:postgresql://me:hunter2@db/x?password=hunter3",
        "jdbc": "jdbc:x;password=${file:/f:p}",
        "my.secret": "x://a:b@c",
        "topic": "password",
    }
    assert secret_values(config) == ["hunter2", "hunter3", "x://a:b@c"]
