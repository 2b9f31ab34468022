from __future__ import annotations

from pathlib import Path

import pytest

from kraal.config.connector.files import ConnectorFile, parse_initial_state, read_connector_file
from kraal.core.errors import BadRequest
from kraal.core.ids import TargetState


def write_and_read(tmp_path: Path, text: str, name: str = "c.any") -> ConnectorFile:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return read_connector_file(path)


@pytest.mark.parametrize("name", ["c.json", "c.properties", "c"])
@pytest.mark.parametrize(
    ("text", "state"),
    [
        pytest.param('{"name": "x", "tasks.max": 2, "r": 1.50, "b": true, "n": null}', None, id="flat JSON"),
        pytest.param(
            '{"name": "x", "config": {"tasks.max": "2", "r": "1.50", "b": "true", "n": null}, '
            '"initial_state": "paused", "unknown": [1]}',
            TargetState.PAUSED,
            id="create request",
        ),
    ],
)
def test_json_is_detected_by_content(tmp_path: Path, name: str, text: str, state: TargetState | None) -> None:
    file = write_and_read(tmp_path, text, name)
    assert (file.name, file.initial_state) == ("x", state)
    assert file.config == {"name": "x", "tasks.max": "2", "r": "1.50", "b": "true", "n": None}


@pytest.mark.parametrize("name", ["c.json", "c.properties"])
def test_other_content_is_parsed_as_properties(tmp_path: Path, name: str) -> None:
    file = write_and_read(tmp_path, "name=x\n! comment\nfile : /data/a b\\\n  c\n", name)
    assert file == ConnectorFile(
        name=file.name,
        config={"name": "x", "file": "/data/a bc"},
        initial_state=None,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            '{"a": "b"}',
            "Connector configuration at '{p}' is missing the mandatory 'name' configuration",
            id="flat",
        ),
        pytest.param(
            "a=b",
            "Connector configuration at '{p}' is missing the mandatory 'name' configuration",
            id="properties",
        ),
        pytest.param(
            "", "Connector configuration at '{p}' is missing the mandatory 'name' configuration", id="empty"
        ),
        pytest.param(
            '{"name": "x", "config": {"name": "y"}}',
            "Connector name configuration in 'config' doesn't match the one specified in 'name' at '{p}'",
            id="mismatched names",
        ),
        pytest.param(
            '{"config": {"a": "b"}}',
            "Connector configuration at '{p}' is missing the mandatory 'name' configuration",
            id="create request without name",
        ),
        pytest.param(
            '{"name": "x", "config": {"a": []}}',
            "Connector configuration at '{p}': the value of 'a' is an array; values must be strings (a list is one "
            'string: "a,b")',
            id="nested config",
        ),
        pytest.param(
            '{"name": "x", "config": []}',
            "Connector configuration at '{p}': 'config' is not an object",
            id="config is a list",
        ),
        pytest.param(
            '{"name": "x", "a": {}}',
            "Connector configuration at '{p}': the value of 'a' is an object; values must be strings (a list is one "
            "string: \"a,b\"), or the file must have the fields 'name' and 'config'",
            id="nested",
        ),
        pytest.param(
            '{"name": "x", "config": {}, "initial_state": "started"}',
            "Connector configuration at '{p}': Invalid value started for initial_state: it must be one of "
            "RUNNING, PAUSED, STOPPED (in any letter case).",
            id="initial state",
        ),
    ],
)
def test_error_contains_path(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadRequest) as raised:
        write_and_read(tmp_path, text)
    assert str(raised.value) == message.replace("{p}", str(tmp_path / "c.any"))


def test_invalid_json_is_mentioned_in_error(tmp_path: Path) -> None:
    with pytest.raises(
        BadRequest, match=r"missing the mandatory 'name' configuration.*is not valid JSON: .*line 1"
    ):
        write_and_read(tmp_path, '{"name": "x" "file": "y"}')


@pytest.mark.parametrize(
    ("text", "state"),
    [
        pytest.param("RUNNING", TargetState.STARTED, id="running"),
        pytest.param("Paused", TargetState.PAUSED, id="paused"),
        pytest.param("stopped", TargetState.STOPPED, id="stopped"),
    ],
)
def test_initial_state_is_case_insensitive(text: str, state: TargetState) -> None:
    assert parse_initial_state(text) is state


@pytest.mark.parametrize("text", ["", "STARTED", "none", " STOPPED"])
def test_invalid_initial_state_is_rejected(text: str) -> None:
    with pytest.raises(BadRequest, match="RUNNING, PAUSED, STOPPED"):
        parse_initial_state(text)
