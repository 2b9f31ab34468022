"""Answers of Java Connect's REST API, recorded in `tests/golden/rest`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "golden" / "rest" / "4.3.0"


def recorded(family: str, prefix: str = "") -> dict[str, Any]:
    """Return the questions and answers of a file by name: those whose names start with `prefix`."""
    lines = (FOLDER / f"{family}.jsonl").read_text("utf-8").splitlines()
    answers = {answer.pop("name"): answer for answer in map(json.loads, lines)}
    return {name: answer for name, answer in answers.items() if name.startswith(prefix)}
