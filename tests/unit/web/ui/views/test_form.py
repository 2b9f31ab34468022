from __future__ import annotations

import json
from typing import Any

import pytest

from kraal.config.hidden import HIDDEN
from tests.unit.golden_rest import recorded
from web.ui.views.form import (
    Field,
    Form,
    Marker,
    Widget,
    build_form,
    parse_errors,
    parse_password_keys,
    validation_from_keys,
)

JAVA_VALIDATIONS = {
    name: golden
    for name, golden in recorded("validate").items()
    if golden["status"] == 200 and "request" in golden
}
JAVA_VALIDATIONS = {
    name: golden for name, golden in JAVA_VALIDATIONS.items() if isinstance(golden["body"], dict)
}


def field(form: Form, key: str) -> Field:
    fields = [*form.extras, *(form_field for group in form.groups for form_field in group.fields)]
    (field,) = [form_field for form_field in fields if form_field.key == key]
    return field


def info(name: str, value: str | None = None, **fields: Any) -> dict[str, Any]:
    definition = {
        "name": name,
        "type": "STRING",
        "required": False,
        "default_value": None,
        "importance": "LOW",
    }
    layout = {"group": None, "order_in_group": -1, "display_name": name, "documentation": ""}
    state = {"errors": fields.pop("errors", []), "visible": fields.pop("visible", True)}
    recommendations = {"recommended_values": fields.pop("recommended_values", [])}
    return {
        "definition": {**definition, **layout, **fields},
        "value": {"name": name, "value": value, **state, **recommendations},
    }


def validation_result(*infos: dict[str, Any], groups: tuple[str, ...] = ()) -> Any:
    return {"name": "C", "error_count": 0, "groups": list(groups), "configs": list(infos)}


@pytest.mark.parametrize("name", JAVA_VALIDATIONS)
def test_form_has_every_key_and_error_of_java_responses(name: str) -> None:
    config, body = JAVA_VALIDATIONS[name]["request"], JAVA_VALIDATIONS[name]["body"]
    form = build_form(body, config)
    fields = [*form.extras, *(form_field for group in form.groups for form_field in group.fields)]
    keys = [form_field.key for form_field in fields]
    assert len(keys) == len(set(keys))
    assert set(config) <= set(keys)
    assert {form_field.key: form_field.value for form_field in fields if form_field.is_set} == {
        key: text or "" for key, text in config.items()
    }
    shown_errors = {error for form_field in fields for error in form_field.errors} | set(form.problems)
    for config_info in body["configs"]:
        for error in config_info["value"]["errors"]:
            assert error in shown_errors or f"{config_info['value']['name']}: {error}" in shown_errors


def test_groups_and_keys_keep_javas_order() -> None:
    form = build_form(
        JAVA_VALIDATIONS["validate-source-good"]["body"], JAVA_VALIDATIONS["validate-source-good"]["request"]
    )
    assert [group.title for group in form.groups] == [
        "Common",
        "Plugin",
        "Transforms",
        "Predicates",
        "Error Handling",
        "Topic Creation",
        "Exactly Once Support",
        "offsets.topic",
    ]
    assert [form_field.key for form_field in form.groups[0].fields][:4] == [
        "name",
        "connector.class",
        "connector.plugin.version",
        "tasks.max",
    ]
    assert [form_field.key for form_field in form.groups[1].fields] == ["file", "topic", "batch.size"]


def test_only_groups_with_values_errors_or_required_keys_are_open() -> None:
    optional_infos = [info(f"k{number}", group="Many") for number in range(200)]
    invalid_info = info("w", group="Wrong", errors=["bad"])
    form = build_form(
        validation_result(
            *optional_infos, invalid_info, info("s", group="Set"), info("r", group="Needed", required=True)
        ),
        {"s": "1"},
    )
    assert {group.title: group.open for group in form.groups} == {
        "Many": False,
        "Wrong": True,
        "Set": True,
        "Needed": True,
    }
    assert [(group.title, group.error_count, group.value_count) for group in form.groups][1:3] == [
        ("Wrong", 1, 0),
        ("Set", 0, 1),
    ]


def test_group_of_a_plugin_with_few_keys_is_open() -> None:
    assert build_form(validation_result(info("a")), {}).groups[0].open
    assert not build_form(validation_result(*(info(f"a{number}") for number in range(13))), {}).groups[0].open


def test_keys_are_ordered_within_groups() -> None:
    infos = [info("c", order_in_group=-1), info("b", order_in_group=2), info("a", order=1, order_in_group=1)]
    assert [form_field.key for form_field in build_form(validation_result(*infos), {}).groups[0].fields] == [
        "a",
        "b",
        "c",
    ]


def test_values_come_from_the_config_not_the_response() -> None:
    validation = validation_result(
        info("secret.text", "geheim"), info("file", "/default", default_value="/default")
    )
    form = build_form(validation, {"secret.text": HIDDEN})
    assert field(form, "secret.text").value == HIDDEN
    assert field(form, "secret.text").has_stored_secret
    assert (field(form, "file").value, field(form, "file").is_set, field(form, "file").default) == (
        "",
        False,
        "/default",
    )
    assert "geheim" not in repr(form)


def test_every_type_has_an_input() -> None:
    validation = validation_result(
        info("p", type="PASSWORD", default_value=None),
        info("b", type="BOOLEAN"),
        info("odd", type="BOOLEAN"),
        info("i", type="INT"),
        info("my.token"),
        info("text"),
        info("fixed"),
    )
    config = {"odd": "${env:X}", "my.token": "x", "text": "a\nb", "fixed": "1"}
    form = build_form(validation, config, fixed={"fixed"})
    widgets = {key: field(form, key).widget for key in ("p", "b", "odd", "i", "my.token", "text", "fixed")}
    assert widgets == {
        "p": Widget.SECRET,
        "b": Widget.CHOICE,
        "odd": Widget.LINE,
        "i": Widget.LINE,
        "my.token": Widget.SECRET,
        "text": Widget.LINES,
        "fixed": Widget.FIXED,
    }
    assert field(form, "i").is_numeric
    assert not field(form, "p").is_numeric


def test_defaults_and_recommended_values_of_secrets_are_not_shown() -> None:
    secret_info = info("p", type="PASSWORD", default_value="geheim", recommended_values=["geheim"])
    assert "geheim" not in repr(
        build_form(validation_result(secret_info, info("x.password", default_value="geheim")), {})
    )


def test_keys_unknown_to_the_worker_are_extras() -> None:
    body = JAVA_VALIDATIONS["validate-source-overrides-none"]["body"]
    form = build_form(body, JAVA_VALIDATIONS["validate-source-overrides-none"]["request"])
    extra_field = field(form, "producer.override.zork")
    assert not extra_field.is_defined
    assert extra_field.errors == (
        "The 'None' policy does not allow 'zork' to be overridden in the connector configuration.",
    )
    assert extra_field in form.extras


def test_error_of_an_unknown_key_is_shown_on_top() -> None:
    form = build_form(validation_result(), {}, errors={"ghost": ["bad"]}, problems=["refused"])
    assert form.problems == ("refused", "ghost: bad")
    assert form.error_count == 2


def test_new_form_shows_no_errors() -> None:
    validation = validation_result(info("r", required=True, errors=["Missing required configuration"]))
    assert build_form(validation, {}, errors={}).error_count == 0
    assert build_form(validation, {}).invalid_fields[0].errors == ("Missing required configuration",)


def test_invisible_keys_are_omitted_unless_set_or_invalid() -> None:
    validation = validation_result(
        info("a", visible=False), info("b", visible=False), info("c", visible=False, errors=["bad"])
    )
    form = build_form(validation, {"b": "1"})
    assert [form_field.key for form_field in form.groups[0].fields] == ["b", "c"]


def test_empty_and_null_values_are_marked() -> None:
    form = build_form(
        validation_result(info("a"), info("b"), info("c"), info("d")), {"a": "", "b": None, "c": "x"}
    )
    assert [field(form, key).marker for key in "abcd"] == [
        Marker.EMPTY,
        Marker.NULL,
        Marker.NONE,
        Marker.NONE,
    ]


def test_errors_are_shown_once() -> None:
    assert parse_errors(validation_result(info("a", errors=["x", "x", "y"]))) == {"a": ("x", "y")}


def test_password_keys_include_prefixes() -> None:
    assert parse_password_keys(JAVA_VALIDATIONS["validate-source-override-types"]["body"]) == {
        "producer.override.ssl.keystore.password"
    }


def test_form_can_be_built_from_keys_alone() -> None:
    keys = recorded("validate", "validate-config-of-FileStreamSink")["validate-config-of-FileStreamSink"][
        "body"
    ]
    form = build_form(validation_from_keys(keys, {"file": "/x"}), {"file": "/x"})
    assert form.groups[0].title == "Common"
    assert field(form, "file").value == "/x"
    assert field(form, "name").required


def test_json_view_equals_the_config() -> None:
    config = {"b": "ä", "a": None}
    assert json.loads(build_form(validation_result(), config).as_json) == config
    assert list(json.loads(build_form(validation_result(), config).as_json)) == ["b", "a"]


@pytest.mark.parametrize(
    "validation",
    [None, [], "x", {}, {"configs": {}}, {"groups": [1], "configs": [None, {"definition": 3, "value": []}]}],
)
def test_malformed_response_builds_the_form_from_the_config(validation: Any) -> None:
    form = build_form(validation, {"a": "1"})
    assert [form_field.key for form_field in form.extras] == ["a"]
    assert form.groups == ()
