"""Converts responses of Connect 4.3 to those of Connect 4.4, which Kraal reproduces."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

_TABLE: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "golden" / "older_connect.json").read_text("utf-8")
)["4.3"]
_TEXTS: Final = [(re.compile(entry["older"], re.DOTALL), entry["current"]) for entry in _TABLE["texts"]]

MISSING_KEYS: Final[dict[str, list[str]]] = _TABLE["missing_keys"]
"""Config keys that Connect 4.3 lacks, by the class or client that they configure."""
KEYS: Final[dict[str, dict[str, Any]]] = _TABLE["keys"]
"""Attributes of config keys that differ in Connect 4.3, with their values in Connect 4.4."""


def as_current(text: str) -> str:
    """Convert a text of Connect 4.3 to that of Connect 4.4."""
    for pattern, replacement in _TEXTS:
        text = pattern.sub(replacement, text)
    return text
