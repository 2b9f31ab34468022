from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.client.manifests import read_manifests
from kraal.config.hidden import HIDDEN
from kraal.core.ids import Json
from web.ui.views.copy_as import Request, connector_yaml, curl, secret_variables

UNSAFE_TEXTS = [
    "a'b",
    'a"b',
    "$(touch x)",
    "`id`",
    "a\\b",
    "a\nb",
    "!x",
    "<script>",
    "\u202ex",
    "ä",
    "..",
    "a/b%2F",
    "; rm -rf /",
    "-X",
    "é\x1b[31m",
]


def run(command: str, variables: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Run a command in a shell in which curl prints its arguments; return the arguments."""
    script = "curl() { for each; do printf '%s\\0' \"$each\"; done; }\n" + command
    process = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, check=True, env={**variables, "LC_ALL": "C.UTF-8"}
    )
    return process.stdout.decode("utf-8").split("\0")[:-1]


def put(name: str, config: dict[str, Json]) -> Request:
    return Request(method="PUT", segments=("connectors", name, "config"), body={**config})


@pytest.mark.parametrize("text", UNSAFE_TEXTS)
def test_curl_command_sends_exactly_the_request(text: str) -> None:
    request = put(text, {text: text, "x": text})
    arguments = run(curl(request, "http://h:8083/").text)
    assert arguments[:3] == ["-sS", "-X", "PUT"]
    assert json.loads(arguments[arguments.index("--data-binary") + 1]) == request.body
    assert f"http://h:8083{request.path}" in arguments


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]))
    )
)
def test_any_body_is_quoted_correctly(config: dict[str, str]) -> None:
    config = {key.replace(HIDDEN, ""): value.replace(HIDDEN, "") for key, value in config.items()}
    words = shlex.split(curl(put("c", {**config}), "http://h").text.replace("\\\n", ""))
    assert json.loads(words[words.index("--data-binary") + 1]) == config


def test_command_without_a_body_is_short_and_has_the_query_in_its_url() -> None:
    assert (
        curl(Request(method="GET", segments=("connectors", "a b")), "http://h").text
        == "curl -sS http://h/connectors/a%20b"
    )
    request = Request(
        method="POST", segments=("connectors", "c", "restart"), query=(("includeTasks", "true"),)
    )
    assert run(curl(request, "http://h").text)[-1] == "http://h/connectors/c/restart?includeTasks=true"
    assert request.text == "POST /connectors/c/restart?includeTasks=true"


def test_masked_secrets_become_shell_variables() -> None:
    config: dict[str, Json] = {
        "db.password": HIDDEN,
        "url": f"x://me:{HIDDEN}@h",
        f"key-{HIDDEN}": "kept",
        "db_password": HIDDEN,
    }
    snippet = curl(put("c", config), "http://h")
    arguments = run(snippet.text, {"DB_PASSWORD": "p'w", "URL": "u", "DB_PASSWORD_2": "q"})
    assert json.loads(arguments[arguments.index("--data-binary") + 1]) == {
        "db.password": "p'w",
        "url": "x://me:u@h",
        f"key-{HIDDEN}": "kept",
        "db_password": "q",
    }
    assert "Set DB_PASSWORD, URL, DB_PASSWORD_2 in the shell first" in snippet.notes[0]


def test_command_fails_while_its_secrets_are_unset() -> None:
    snippet = curl(put("c", {"db.password": HIDDEN}), "http://h", needs_password=False)
    with pytest.raises(subprocess.CalledProcessError):
        run(snippet.text)


def test_worker_password_is_a_variable() -> None:
    snippet = curl(Request(method="GET", segments=("connectors",)), "http://h", needs_password=True)
    assert run(snippet.text, {"CONNECT_USER": "u", "CONNECT_PASSWORD": "p w"}) == [
        "-sS",
        "-u",
        "u:p w",
        "http://h/connectors",
    ]
    assert "CONNECT_PASSWORD" in snippet.notes[0]


def test_variable_names_are_valid_and_unique() -> None:
    assert list(secret_variables(["a.b", "a-b", "9x", "ü", "..."]).values()) == [
        "A_B",
        "A_B_2",
        "_9X",
        "SECRET",
        "SECRET_2",
    ]


@pytest.mark.parametrize("text", UNSAFE_TEXTS)
def test_apply_accepts_the_yaml_of_a_connector(text: str, tmp_path: Path) -> None:
    config = {
        "name": text,
        "connector.class": "FileStreamSink",
        "topics": text,
        text: "yes",
        "empty": "",
        "n": "1.50",
        "none": None,
    }
    path = tmp_path / "c.yaml"
    path.write_text(connector_yaml(text, config, initial_state="STOPPED").text, "utf-8")
    manifests = read_manifests([str(path)], [], recursive=False)
    assert manifests.errors == ()
    (manifest,) = manifests.connectors
    assert (manifest.name, dict(manifest.config), manifest.initial_state) == (text, config, "STOPPED")


def test_apply_rejects_yaml_with_masked_secrets(tmp_path: Path) -> None:
    snippet = connector_yaml(
        "c", {"name": "c", "db.password": "geheim", "phrase": "geheim"}, secret_keys={"phrase"}
    )
    assert "geheim" not in snippet.text
    assert snippet.notes
    path = tmp_path / "c.yaml"
    path.write_text(snippet.text, "utf-8")
    manifests = read_manifests([str(path)], [], recursive=False)
    assert manifests.connectors == ()
    assert "db.password, phrase" in manifests.errors[0]


def test_yaml_of_a_running_connector_has_no_initial_state() -> None:
    assert connector_yaml("c", {"a": "1"}).text == 'name: c\nconfig:\n  a: "1"\n'
