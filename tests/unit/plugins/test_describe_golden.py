"""What plugins there are and what may be in their configs, against Java Connect 4.3.0 (all but the documentation)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.unit.plugins.shipped import registry
from tests.unit.web.api import Api
from web.settings import Settings

GOLDEN = Path(__file__).parents[2] / "golden" / "rest" / "4.3.0"
DESCRIBED = sorted(GOLDEN.glob("validate-config-of-*.json"))
LISTED = sorted(GOLDEN.glob("plugins-*.json"))
NOT_OURS = ("org.apache.kafka.connect.mirror.",)


def answer(path: str) -> tuple[int, Any]:
    """Ask a worker that has the plugins which the real one had."""
    found = Api(Settings(advertised_url="http://worker:8083/"), registry()).client.get(path)
    return found.status_code, found.json()


@pytest.mark.parametrize("path", DESCRIBED, ids=[path.stem for path in DESCRIBED])
def test_config_describes_as_java_does(path: Path) -> None:
    golden = json.loads(path.read_text("utf-8"))
    plugin = quote(golden["plugin"], safe="")
    status, body = answer(f"/connector-plugins/{plugin}/config{golden.get('query', '')}")
    assert status == golden["status"]
    if status == 200:
        assert [list(key)[:5] for key in body] == [list(key)[:5] for key in golden["body"]]
        assert all(key.pop("documentation") for key in body)
    assert body == golden["body"]


@pytest.mark.parametrize("path", LISTED, ids=[path.stem for path in LISTED])
def test_plugins_are_listed_as_java_does(path: Path) -> None:
    golden = json.loads(path.read_text("utf-8"))
    status, body = answer(golden["path"])
    assert status == golden["status"]
    assert body == [each for each in golden["body"] if not each["class"].startswith(NOT_OURS)]
