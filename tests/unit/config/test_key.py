from __future__ import annotations

import json

import pytest

from kraal.config.checks import all_of, at_least, between, non_empty, one_of
from kraal.config.key import (
    REQUIRED,
    ConfigDef,
    ConfigType,
    Importance,
    Key,
    Password,
    Recommendation,
)
from kraal.config.values import parse_value, render
from kraal.core.errors import ConfigInvalid


@pytest.mark.parametrize(
    ("config_type", "text", "value", "formatted"),
    [
        pytest.param(ConfigType.INT, " +5 ", 5, "5", id="sign and blanks"),
        pytest.param(ConfigType.SHORT, "-32768", -32768, "-32768", id="minimum short"),
        pytest.param(ConfigType.LONG, "9223372036854775807", 2**63 - 1, str(2**63 - 1), id="maximum long"),
        pytest.param(ConfigType.DOUBLE, "1e3", 1000.0, "1000.0", id="double"),
        pytest.param(ConfigType.DOUBLE, "1.5d", 1.5, "1.5", id="double with Java suffix"),
        pytest.param(ConfigType.BOOLEAN, "TrUe", True, "true", id="boolean in any case"),
        pytest.param(ConfigType.LIST, " a , b,,c ", ("a", "b", "", "c"), "a,b,,c", id="list"),
        pytest.param(ConfigType.LIST, "  ", (), "", id="empty list"),
        pytest.param(ConfigType.STRING, "\t x \n", "x", "x", id="string"),
        pytest.param(ConfigType.PASSWORD, " s ", Password("s"), "[hidden]", id="password"),
    ],
)
def test_values_are_parsed_and_formatted_like_java(
    config_type: ConfigType, text: str, value: object, formatted: str
) -> None:
    parsed_value = parse_value("k", text, config_type)
    assert parsed_value == value
    assert render(parsed_value) == formatted


@pytest.mark.parametrize(
    ("config_type", "text", "reason"),
    [
        pytest.param(ConfigType.INT, "2147483648", "Not a number of type INT", id="int too large"),
        pytest.param(ConfigType.INT, "1_000", "Not a number of type INT", id="underscore"),
        pytest.param(ConfigType.INT, "9" * 5000, "Not a number of type INT", id="very long number"),
        pytest.param(ConfigType.SHORT, "32768", "Not a number of type SHORT", id="short too large"),
        pytest.param(ConfigType.DOUBLE, "x", "Not a number of type DOUBLE", id="double"),
        pytest.param(ConfigType.DOUBLE, "", "Not a number of type DOUBLE", id="empty double"),
        pytest.param(ConfigType.BOOLEAN, "yes", "Expected value to be either true or false", id="boolean"),
        pytest.param(ConfigType.CLASS, "", "Class  could not be found.", id="class"),
    ],
)
def test_invalid_values_have_connects_error(config_type: ConfigType, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match="Invalid value") as raised:
        parse_value("k", text, config_type)
    assert str(raised.value) == f"Invalid value {text} for configuration k: {reason}"


def test_password_is_never_shown() -> None:
    credential = Password("hunter2")
    assert f"{credential} {credential!r} {credential:>20}".count("[hidden]") == 3
    assert "hunter2" not in repr({"k": credential})
    assert credential.value == "hunter2"
    assert credential != "hunter2"
    with pytest.raises(TypeError):
        json.dumps(credential)


DEFINITION = ConfigDef(
    [
        Key(name="n", type=ConfigType.INT, default=1, validator=at_least(1), group="G", order=1),
        Key(name="r", type=ConfigType.STRING, default=REQUIRED, validator=non_empty, group="H"),
        Key(name="c", type=ConfigType.STRING, default="a", validator=one_of("a", "b"), dependents=("ghost",)),
    ]
)


def test_all_errors_are_reported_like_java() -> None:
    with pytest.raises(ConfigInvalid) as raised:
        DEFINITION.parse({"n": "zero", "c": "z"})
    assert raised.value.errors == (
        "Invalid value zero for configuration n: Not a number of type INT",
        "Invalid value null for configuration n: Value must be non-null",
        'Missing required configuration "r" which has no default value.',
        "Invalid value z for configuration c: String must be one of: a, b",
        "ghost is referred in the dependents, but not defined.",
    )


def test_merge_keeps_order_of_replaced_keys() -> None:
    merged_definition = DEFINITION.merge(
        [Key(name="n", type=ConfigType.LONG), Key(name="z", type=ConfigType.LIST)]
    )
    assert [key.name for key in merged_definition] == ["n", "r", "c", "z"]
    assert merged_definition["n"].required
    assert not DEFINITION["n"].required
    assert DEFINITION.groups == ("G", "H")


def test_embed_sets_prefix_group_and_order() -> None:
    embedded_definition = ConfigDef().embed("p.", "P", 3, DEFINITION)
    assert [(key.name, key.group, key.order) for key in embedded_definition] == [
        ("p.c", "P", 3),
        ("p.n", "P: G", 4),
        ("p.r", "P: H", 5),
    ]


def test_recommender_receives_all_values() -> None:
    key = Key(
        name="k",
        type=ConfigType.STRING,
        default=None,
        importance=Importance.LOW,
        recommender=lambda _name, values: Recommendation((str(values["n"]),), visible=False),
    )
    value = DEFINITION.merge([key]).validate({"n": "7"})[-1]
    assert DEFINITION.merge([key])["k"].default_text is None
    recommended_value = next(
        candidate for candidate in DEFINITION.merge([key]).validate({"n": "7"}) if candidate.name == "k"
    )
    assert (recommended_value.recommended, recommended_value.visible) == (("7",), False)
    assert value.name == "ghost"


def test_checks_can_be_combined() -> None:
    check = all_of(at_least(1), between(0, 5))
    assert check("k", 3) is None
    assert check("k", 0) == "Invalid value 0 for configuration k: Value must be at least 1"
    assert check("k", 6) == "Invalid value 6 for configuration k: Value must be no more than 5"
