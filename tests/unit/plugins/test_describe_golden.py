"""Tests that the listing of plugins and their config keys match Java Connect, except for the documentation."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.unit.golden_rest import recorded
from tests.unit.plugins.shipped import registry
from tests.unit.web.api import Api
from web.settings import Settings

CONFIG_RESPONSES = recorded("validate", "validate-config-of-")
LISTING_RESPONSES = recorded("plugins")
JAVA_ONLY_PREFIXES = ("org.apache.kafka.connect.mirror.",)


def get(path: str) -> tuple[int, Any]:
    """Return the status and body of a response of a worker that has the same plugins as the recorded worker."""
    response = Api(Settings(advertised_url="http://worker:8083/"), registry()).client.get(path)
    return response.status_code, response.json()


@pytest.mark.parametrize("golden", CONFIG_RESPONSES.values(), ids=CONFIG_RESPONSES)
def test_plugin_config_response_matches_connect(golden: Any) -> None:
    plugin = quote(golden["plugin"], safe="")
    status, body = get(f"/connector-plugins/{plugin}/config{golden.get('query', '')}")
    assert status == golden["status"]
    if status == 200:
        assert [list(key)[:5] for key in body] == [list(key)[:5] for key in golden["body"]]
        assert all(key.pop("documentation") for key in body)
    assert body == golden["body"]


@pytest.mark.parametrize("golden", LISTING_RESPONSES.values(), ids=LISTING_RESPONSES)
def test_plugin_listing_matches_connect(golden: Any) -> None:
    status, body = get(golden["path"])
    assert status == golden["status"]
    assert body == [plugin for plugin in golden["body"] if not plugin["class"].startswith(JAVA_ONLY_PREFIXES)]
