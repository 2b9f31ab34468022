"""What Java's workers say went wrong, without what only they say."""

from __future__ import annotations

import re


def cause_of(trace: str) -> str:
    """Return what the tolerance was exceeded by in a trace of Java's, or what kept a task from starting.

    It starts with its class, unless that is Connect's own for all that is wrong with a config.
    """
    causes = [line for line in trace.splitlines() if line.startswith("Caused by: ")]
    cause = causes[0].removeprefix("Caused by: ") if causes else trace.split("\n", maxsplit=1)[0]
    return re.sub(r"^(org\.apache\.kafka\.[\w.]*\.(Connect|Config)Exception: )+", "", cause)


def without_details(message: str) -> str:
    """Cut off what only one implementation of regular expressions says (docs/compat.md)."""
    return re.sub(r"(Invalid regex: ).*?(?=\nYou can also)", r"\1…", message, flags=re.DOTALL)
