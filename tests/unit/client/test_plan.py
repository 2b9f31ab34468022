from __future__ import annotations

import pytest

from kraal.client.plan import Action, action_for, apply_patch, difference
from kraal.core.ids import Config


@pytest.mark.parametrize(
    ("live_config", "desired_config", "action"),
    [
        pytest.param(None, {"a": "1"}, Action.CREATED, id="new connector"),
        pytest.param(
            {"a": "1", "b": None}, {"b": None, "a": "1"}, Action.UNCHANGED, id="same keys in another order"
        ),
        pytest.param({"a": "1"}, {"a": "2"}, Action.CONFIGURED, id="another value"),
        pytest.param({"a": "1", "b": "2"}, {"a": "1"}, Action.CONFIGURED, id="removed key"),
        pytest.param({"a": None}, {}, Action.CONFIGURED, id="removed null"),
    ],
)
def test_action_for_compares_configs(
    live_config: Config | None, desired_config: Config, action: Action
) -> None:
    assert action_for(live_config, desired_config) is action


def test_patch_changes_adds_and_removes_keys() -> None:
    live_config = {"a": "1", "b": "2", "c": "3", "d": None}
    assert apply_patch(live_config, {"b": "20", "c": None, "e": "5", "f": None}) == {
        "a": "1",
        "b": "20",
        "d": None,
        "e": "5",
    }


def test_diff_is_sorted_by_key_and_hides_changed_secrets() -> None:
    live_config = {"file": "a", "password": "old", "token": "same", "z": None, "text": "a\nb"}
    desired_config = {"token": "same", "file": "b", "password": "new", "z": "null", "text": "a\nb"}
    assert difference(("live", live_config), ("file", desired_config)) == [
        "--- live",
        "+++ file",
        "@@ -1,5 +1,5 @@",
        "-file: a",
        "-password: [hidden]",
        "+file: b",
        "+password: [hidden] (changed)",
        ' text: "a\\nb"',
        " token: [hidden]",
        "-z: null",
        '+z: "null"',
    ]


def test_equal_configs_have_no_diff() -> None:
    assert difference(("a", {"x": "1", "y": "2"}), ("b", {"y": "2", "x": "1"})) == []


def test_missing_connector_is_dev_null_in_the_diff() -> None:
    assert difference(("live", None), ("file", {"a": "1"})) == [
        "--- /dev/null",
        "+++ file",
        "@@ -0,0 +1 @@",
        "+a: 1",
    ]
