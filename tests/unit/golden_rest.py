"""Responses of Connect's REST API, recorded in `tests/golden/rest`."""

from __future__ import annotations

import json
from typing import Any

from kraal.core.connect_version import CONNECT_VERSION
from tests.golden_files import GOLDEN


def recorded(family: str, prefix: str = "", version: str = CONNECT_VERSION) -> dict[str, Any]:
    """Return the recorded requests and responses of a file by name, restricted to names with a prefix.

    Of an older version, its own version is replaced by the current one.
    """
    text = (GOLDEN / "rest" / version / f"{family}.jsonl").read_text("utf-8")
    responses = {
        answer.pop("name"): answer
        for answer in map(json.loads, text.replace(version, CONNECT_VERSION).splitlines())
    }
    return {name: answer for name, answer in responses.items() if name.startswith(prefix)}
