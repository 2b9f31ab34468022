"""Tests for KIP-980: connector files on the command line of `kraal standalone`.

As in the command, a separate thread applies the files.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from kraal.config.connector.files import read_connector_file
from kraal.core.errors import BadRequest
from kraal.worker.standalone import apply_file
from tests.kips.connect_cluster import fake_config
from tests.kips.modes import OneWorker

NAME = "from-a-file"
EXTENSIONS = ["json", "properties", "txt", ""]
FLAT_CONFIG = {"name": NAME, **fake_config(2)}


def apply_connector_file(standalone: OneWorker, path: Path, text: str) -> None:
    """Write a connector file and apply it to the worker."""
    path.write_text(text, "utf-8")
    file = read_connector_file(path)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(apply_file, standalone.worker.assembly, file)
        while not future.done():
            standalone.worker.run()
            wait([future], timeout=0.01)
        future.result()
    standalone.advance_until_idle()


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_flat_json_is_a_config(standalone: OneWorker, tmp_path: Path, extension: str) -> None:
    """The file has the body of PUT /connectors/{connector}/config.

    > The CLI will be updated to also accept JSON files containing the connector configurations (i.e. the optional
    > additional CLI arguments can be either Java Properties files or JSON files).

    > A simple JSON object containing only string key-value pairs representing the connector configuration (i.e. same as
    > the existing request body format for the PUT /connectors/{connector}/config endpoint

    > Users won't need to explicitly specify the type of the connector configuration file, nor will we rely on the file
    > name extensions.

    > Can use JSON files containing connector key-value configurations with standalone mode
    """
    apply_connector_file(standalone, tmp_path / f"c.{extension}", json.dumps(FLAT_CONFIG))
    assert standalone.states(NAME) == ["RUNNING"] * 3
    assert standalone.get(f"/connectors/{NAME}/config").body == FLAT_CONFIG


@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.parametrize(
    ("state", "expected_states"),
    [(None, ["RUNNING"] * 3), ("RUNNING", ["RUNNING"] * 3), ("paused", ["PAUSED"]), ("STOPPED", ["STOPPED"])],
)
def test_create_request_sets_the_initial_state(
    standalone: OneWorker, tmp_path: Path, extension: str, state: str | None, expected_states: list[str]
) -> None:
    """The file has the body of POST /connectors.

    > A JSON object containing the "name" string, "config" object and (optionally) "initial_state" of the connector
    > (i.e. same as the request body format for the POST /connectors endpoint)

    > (or at startup in a JSON file specified via command line arguments).

    > Can use JSON files containing a JSON object similar to the request body format for the POST /connectors endpoint
    > with standalone mode

    > users will be able to copy and use examples across both the methods of connector creation
    """
    body = {"name": NAME, "config": fake_config(2), **({} if state is None else {"initial_state": state})}
    apply_connector_file(standalone, tmp_path / f"c.{extension}", json.dumps(body, indent=2))
    assert standalone.states(NAME) == expected_states
    assert standalone.get(f"/connectors/{NAME}/config").body == {**fake_config(2), "name": NAME}
    assert standalone.post("/connectors", {**body, "name": "by-rest"}).status == 201, (
        "the same body works over REST"
    )
    standalone.advance_until_idle()
    assert standalone.states("by-rest") == expected_states


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_other_content_is_read_as_java_properties(
    standalone: OneWorker, tmp_path: Path, extension: str
) -> None:
    """The file is not JSON.

    > where the connector properties are Java Properties files containing String key-value connector configurations.

    > we'll first attempt to parse it into the above two JSON structures before attempting to parse it into Java
    > Properties if the JSON parsing is unsuccessful.
    """
    text = "# a comment\n" + "".join(f"{key} = {value}\n" for key, value in FLAT_CONFIG.items())
    apply_connector_file(standalone, tmp_path / f"c.{extension}", text)
    assert standalone.states(NAME) == ["RUNNING"] * 3
    assert standalone.get(f"/connectors/{NAME}/config").body == FLAT_CONFIG


def test_invalid_initial_state_error_contains_the_file_name(standalone: OneWorker, tmp_path: Path) -> None:
    """No connector is created.

    > if a valid "initial_state" is specified
    """
    path = tmp_path / "c.json"
    with pytest.raises(BadRequest, match=f"{path}.*RUNNING, PAUSED, STOPPED"):
        apply_connector_file(
            standalone, path, json.dumps({"name": NAME, "config": fake_config(), "initial_state": "FAILED"})
        )
    assert standalone.get("/connectors").body == []
