"""Errors and OPTIONS, byte for byte as Java Connect 4.3.0 answered them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.web.api import Api

GOLDEN = Path(__file__).parents[2] / "golden" / "rest" / "4.3.0"
CASES = sorted([*GOLDEN.glob("errors-*.json"), *GOLDEN.glob("options-*.json")])


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in CASES])
def test_answers_as_java_connect_does(api: Api, path: Path) -> None:
    golden = json.loads(path.read_text("utf-8"))
    sent, expected = golden["request"], golden["answer"]
    answer = api.client.request(sent["method"], sent["path"], headers=sent["headers"], content=sent["body"])
    assert answer.text == expected["body"]
    assert answer.status_code == expected["status"]
    for header in ("Content-Type", "Content-Length", "Allow"):
        assert answer.headers.get(header) == expected["headers"].get(header), header


def test_golden_answers_are_there() -> None:
    assert len(CASES) >= 30
