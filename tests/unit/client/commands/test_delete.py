"""Tests for `kraal delete`."""

from __future__ import annotations

from tests.fakes.workers.connect import Connect, ScriptedResponse
from tests.unit.client.conftest import Kraal


def test_delete_continues_after_an_error(kraal: Kraal, worker: Connect, connector_folder: str) -> None:
    kraal.out("apply", "-f", connector_folder)
    result = kraal("delete", "a", "nobody", "b")
    assert (result.exit_code, result.stdout) == (1, "a deleted\nb deleted\n")
    assert result.stderr == (
        f"Error: nobody: {worker.url} returned 404: Connector nobody not found\n"
        "Hint: `kraal ls` lists the connectors of the worker.\n"
    )
    assert kraal.out("delete", "-f", connector_folder, "--ignore-missing") == "c deleted\n"
    assert worker.names == []


def test_wrong_url_is_not_ignored_as_a_missing_connector(kraal: Kraal, worker: Connect) -> None:
    worker.script(
        "DELETE", "/connectors/a", ScriptedResponse(404, {"error_code": 404, "message": "HTTP 404 Not Found"})
    )
    assert "HTTP 404 Not Found" in kraal.error("delete", "a", "--ignore-missing")
