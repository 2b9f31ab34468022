"""Recorded responses of Connect's REST API in `tests/golden/rest`."""

from __future__ import annotations

import json
from typing import Any

from kraal.core.connect_version import CONNECT_VERSION
from tests.golden_files import GOLDEN


def recorded(family: str, prefix: str = "", version: str = CONNECT_VERSION) -> dict[str, Any]:
    """Return the recorded requests and responses of a file, by name, if the name starts with `prefix`.

    In recordings of an older Connect version, its version number is replaced by the current version number.
    """
    text = (GOLDEN / "rest" / version / f"{family}.jsonl").read_text("utf-8")
    responses = {
        response.pop("name"): response
        for response in map(json.loads, text.replace(version, CONNECT_VERSION).splitlines())
    }
    return {name: response for name, response in responses.items() if name.startswith(prefix)}
