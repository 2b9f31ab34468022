"""Rendering in the Prometheus text format, version 0.0.4. Pure.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_LABEL_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with all its series."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    rows: Sequence[tuple[str, float]]
    """Labels in the format of `labels`, and the value of each series."""


def labels(*pairs: tuple[str, str]) -> str:
    """Format labels as `{connector="a",task="0"}`; empty without labels. Values may contain any characters."""
    inner = ",".join(f'{name}="{escape(value)}"' for name, value in pairs)
    return f"{{{inner}}}" if inner else ""


def escape(value: str) -> str:
    """Escape a label value for use between quotes. A lone surrogate becomes `?`, as in JSON."""
    if value.isascii() and not ('"' in value or "\\" in value or "\n" in value):
        return value
    return value.translate(_LABEL_ESCAPES).encode("utf-8", "replace").decode("utf-8")


def render(family: Family) -> str:
    """Render a family; empty if it has no series."""
    if not family.rows:
        return ""
    name = family.name
    head = f"# HELP {name} {family.help.translate(_HELP_ESCAPES)}\n# TYPE {name} {family.kind}\n"
    # `value - value == 0` holds only for finite values, which have Python's format.
    lines = [
        f"{name}{label} {value if value - value == 0 else number(value)}\n" for label, value in family.rows
    ]
    return head + "".join(lines)


def number(value: float) -> str:
    """Format a value as Go parses it."""
    if isinstance(value, int) or math.isfinite(value):
        return repr(value)
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"
