"""Tests that errors and responses to OPTIONS equal the recorded responses of each Java Connect version."""

from __future__ import annotations

from typing import Any

import pytest

from tests.golden_files import GOLDEN
from tests.unit.golden_rest import recorded
from tests.unit.web.api import Api

VERSIONS = sorted(path.parent.name for path in (GOLDEN / "rest").glob("*/errors.jsonl"))
CASES = {
    f"{version} {name}": golden
    for version in VERSIONS
    for family in ("errors", "options")
    for name, golden in recorded(family, version=version).items()
}


@pytest.mark.parametrize("golden", CASES.values(), ids=CASES)
def test_responses_match_java_connect(api: Api, golden: Any) -> None:
    request, expected = golden["request"], golden["answer"]
    response = api.client.request(
        request["method"], request["path"], headers=request["headers"], content=request["body"]
    )
    assert response.text == expected["body"]
    assert response.status_code == expected["status"]
    for header in ("Content-Type", "Content-Length", "Allow"):
        assert response.headers.get(header) == expected["headers"].get(header), header


def test_golden_responses_exist() -> None:
    assert len(CASES) >= 30 * len(VERSIONS)
