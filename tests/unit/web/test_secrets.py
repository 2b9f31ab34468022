"""Tests that error responses contain no secrets."""

from __future__ import annotations

import json

import pytest

from kraal.core.errors import BadRequest, KraalError
from kraal.core.secrets import secrets
from kraal.peers import PeerRefused
from tests.unit.web.api import Api

SECRET = "hunter2hunter2"  # noqa: S105 - for a test


@pytest.mark.parametrize(
    "error",
    [
        BadRequest(f"no {SECRET} here"),
        KraalError(f"no {SECRET} here"),
        ValueError(f"no {SECRET} here"),
        PeerRefused(400, 400, f"no {SECRET} here"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_error_message_contains_no_secret(api: Api, error: Exception) -> None:
    secrets.add(SECRET)
    api.herder.error = error
    _, text = api.request("POST", "/connectors/x/restart")
    assert json.loads(text)["message"] == "no [hidden] here"


def test_configs_are_returned_as_written(api: Api) -> None:
    """As in Java Connect, a client that is allowed to read configs also sees literal passwords."""
    secrets.add(SECRET)
    api.herder.put("x", {"db.password": SECRET})
    assert api.request("GET", "/connectors/x/config") == (200, f'{{"db.password":"{SECRET}","name":"x"}}')
