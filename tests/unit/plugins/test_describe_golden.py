"""What plugins there are and what may be in their configs, against Java Connect (all but the documentation)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.unit.golden_rest import recorded
from tests.unit.plugins.shipped import registry
from tests.unit.web.api import Api
from web.settings import Settings

DESCRIBED = recorded("validate", "validate-config-of-")
LISTED = recorded("plugins")
NOT_OURS = ("org.apache.kafka.connect.mirror.",)


def answer(path: str) -> tuple[int, Any]:
    """Ask a worker that has the plugins which the real one had."""
    response = Api(Settings(advertised_url="http://worker:8083/"), registry()).client.get(path)
    return response.status_code, response.json()


@pytest.mark.parametrize("golden", DESCRIBED.values(), ids=DESCRIBED)
def test_config_describes_as_java_does(golden: Any) -> None:
    plugin = quote(golden["plugin"], safe="")
    status, body = answer(f"/connector-plugins/{plugin}/config{golden.get('query', '')}")
    assert status == golden["status"]
    if status == 200:
        assert [list(key)[:5] for key in body] == [list(key)[:5] for key in golden["body"]]
        assert all(key.pop("documentation") for key in body)
    assert body == golden["body"]


@pytest.mark.parametrize("golden", LISTED.values(), ids=LISTED)
def test_plugins_are_listed_as_java_does(golden: Any) -> None:
    status, body = answer(golden["path"])
    assert status == golden["status"]
    assert body == [each for each in golden["body"] if not each["class"].startswith(NOT_OURS)]
