from __future__ import annotations

import re
from pathlib import Path

import pytest

from kraal.client.manifests import Manifests, read_manifests

FLAT_JSON = '{"name": "%s", "connector.class": "FileStreamSource", "tasks.max": 1}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "b.json": FLAT_JSON % "b",
        "a.properties": "name=a\nconnector.class=FileStreamSource\n",
        "c.yaml": "name: c\nconfig:\n  tasks.max: 1\ninitial_state: paused\n---\nname: d\ntasks.max: 2\n",
        "README.md": "no connector",
        ".hidden.json": "{",
        "below/e.yml": "name: e\n",
        "f.txt": FLAT_JSON % "f",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path


def read(*paths: object, stdin: str = "", recursive: bool = False) -> Manifests:
    return read_manifests([str(path) for path in paths], [stdin], recursive=recursive)


def names(manifests: Manifests) -> list[str]:
    return [connector.name for connector in manifests.connectors]


def test_directory_files_are_read_in_order_and_by_suffix(folder: Path) -> None:
    manifests = read(folder)
    assert (names(manifests), manifests.errors) == (["a", "b", "c", "d"], ())
    assert [connector.initial_state for connector in manifests.connectors] == [None, None, "PAUSED", None]
    assert manifests.connectors[2].config == {"tasks.max": "1", "name": "c"}
    assert names(read(folder, recursive=True)) == ["a", "b", "e", "c", "d"]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "a", "config": {"n": 1}, "initial_offsets": [{"partition": {"f": "1"}, "offset": {"p": 1}}]}',
        'name: a\nconfig: {n: 1}\ninitial_offsets:\n  - partition: {f: "1"}\n    offset: {p: 1}\n',
    ],
    ids=["JSON", "YAML"],
)
def test_initial_offsets_keep_json_numbers(text: str) -> None:
    [connector] = read("-", stdin=text).connectors
    assert connector.config == {"n": "1", "name": "a"}
    assert connector.initial_offsets == [({"f": "1"}, {"p": 1})]


def test_named_file_may_have_any_suffix(folder: Path) -> None:
    assert names(read(folder / "f.txt")) == ["f"]


@pytest.mark.parametrize(
    "text",
    [
        FLAT_JSON % "x",
        "# properties\nname=x\n",
        "name: x\n",
        "# yaml\nname: x\nurl: a=b\n",
        '{"name": "x", "config": {}}',
    ],
)
def test_standard_input_may_have_any_format(text: str) -> None:
    assert names(read("-", stdin=text)) == ["x"]


def test_invalid_file_does_not_stop_other_files(folder: Path) -> None:
    (folder / "b.json").write_text('{"name": "b", "config": []}')
    (folder / "c.yaml").write_text("name: c\n---\nname: &x d\n")
    manifests = read(folder, folder / "missing.json")
    assert names(manifests) == ["a"]
    assert [error.split("'")[1] for error in manifests.errors] == [
        str(folder / name) for name in ("b.json", "c.yaml", "missing.json")
    ]
    assert "line 3" in manifests.errors[1]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        (
            "a.json",
            '{"name": "a", "password": "[hidden]"}',
            r"contains the masked value \[hidden\] for password",
        ),
        ("a.yaml", "- name: a\n", "not a mapping"),
        ("a.yaml", "# nothing\n", "is empty"),
        ("a.yaml", "name: a\nlist:\n- 1\n", "the value of 'list' is an array; values must be strings"),
        ("a.json", "{}", "missing the mandatory 'name'"),
        ("a.json", '{"name": "", "x": "y"}', "empty name"),
        ("a.json", '{"name": "a", "config": {}, "initial_state": "GONE"}', "RUNNING, PAUSED, STOPPED"),
        (
            "a.json",
            '{"name": "a", "config": {}, "initial_offsets": []}',
            "Partitions / offsets need to be provided",
        ),
        (
            "a.yaml",
            "name: a\nconfig: {}\ninitial_offsets: [{partition: 1}]\n",
            r"Field partition of initial_offsets\[0\] must be a JSON object, but is a number",
        ),
        (
            "a.json",
            '{"name": "a", "config": {}, "initial_offsets": [{"partition": {}, "offset": {"n": NaN}}]}',
            r"A number in initial_offsets\[0\] is too large: NaN",
        ),
    ],
)
def test_error_names_the_file(tmp_path: Path, name: str, text: str, reason: str) -> None:
    (tmp_path / name).write_text(text)
    manifests = read(tmp_path)
    assert manifests.connectors == ()
    assert len(manifests.errors) == 1
    assert str(tmp_path / name) in manifests.errors[0]
    assert re.search(reason, manifests.errors[0])


def test_duplicate_definitions_are_ignored(folder: Path) -> None:
    (folder / "z.json").write_text(FLAT_JSON % "a")
    manifests = read(folder)
    assert names(manifests) == ["b", "c", "d"]
    assert manifests.errors == (
        (
            "Connector a is defined 2 times, so all definitions are ignored: "
            f"{folder / 'a.properties'}, {folder / 'z.json'}"
        ),
    )


def test_empty_directory_is_an_error(tmp_path: Path) -> None:
    assert "contains no connector files (.json" in read(tmp_path).errors[0]
