"""Extracts the causes of failures from the traces of Java workers."""

from __future__ import annotations

import re


def extract_cause(trace: str) -> str:
    """Return the cause of a task failure from a Java trace.

    The cause starts with the exception class, unless the class is ConfigException or ConnectException.
    """
    causes = [line for line in trace.splitlines() if line.startswith("Caused by: ")]
    cause = causes[0].removeprefix("Caused by: ") if causes else trace.split("\n", maxsplit=1)[0]
    return re.sub(r"^(org\.apache\.kafka\.[\w.]*\.(Connect|Config)Exception: )+", "", cause)


def remove_details(message: str) -> str:
    """Remove the details of regular expression errors, which depend on the implementation (docs/compat.md)."""
    return re.sub(r"(Invalid regex: ).*?(?=\nYou can also)", r"\1…", message, flags=re.DOTALL)
