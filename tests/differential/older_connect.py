"""What a worker of Connect 4.3 answers differently from Connect 4.4, and so from Kraal: a table."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

_TABLE: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "golden" / "older_connect.json").read_text("utf-8")
)["4.3"]
_TEXTS: Final = [(re.compile(each["older"], re.DOTALL), each["current"]) for each in _TABLE["texts"]]

MISSING_KEYS: Final[dict[str, list[str]]] = _TABLE["missing_keys"]
"""Config keys that it does not have, by the class or the client that they configure."""
KEYS: Final[dict[str, dict[str, Any]]] = _TABLE["keys"]
"""What is different in the definitions of keys, in the current form."""


def as_current(text: str) -> str:
    """Return a text of Connect 4.3 as Connect 4.4 writes it."""
    for older, current in _TEXTS:
        text = older.sub(current, text)
    return text
