"""Writes JSON values as YAML: what any YAML parser reads back as the same, and `kraal.client.yaml_reader` too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from kraal.client.text import printable
from kraal.client.yaml_reader import typed

_PLAIN = re.compile(r"[A-Za-z_/.$<(][\w/.$<>()+=@*;-]*(?: [\w/.$<>()+=@*;-]+)*", re.ASCII)
"""Texts without anything that means something to YAML."""
_WORDS = {"yes", "no", "on", "off", "y", "n", "null", "true", "false"}
"""Texts that some version of YAML takes for something else."""


def to_yaml(value: Any) -> str:
    """Return a value as a document, with a line end."""
    if isinstance(value, (dict, list)) and value:
        return "".join(f"{line}\n" for line in _lines(value))
    return f"{_scalar(value)}\n"


def _lines(value: Any) -> Iterator[str]:
    """Give the lines of a dict or list that is not empty."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _entry(f"{_text(str(key))}:", each)
    else:
        for each in value:
            yield from _item(each)


def _entry(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, (dict, list)) and value:
        yield key
        yield from (f"  {line}" for line in _lines(value))
    elif isinstance(value, str) and _is_block(value):
        yield f"{key} |" if value.endswith("\n") else f"{key} |-"
        yield from (f"  {line}" if line else "" for line in value.removesuffix("\n").split("\n"))
    else:
        yield f"{key} {_scalar(value)}"


def _item(value: Any) -> Iterator[str]:
    if not isinstance(value, (dict, list)) or not value:
        yield f"- {_scalar(value)}"
        return
    for number, line in enumerate(_lines(value)):
        yield f"{'  ' if number else '- '}{line}" if line else ""


def _scalar(value: Any) -> str:
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS and typed(text) == text
    if plain:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if printable(quoted) == quoted else json.dumps(text)


def _is_block(text: str) -> bool:
    """Tell whether a text is shown line by line: traces are."""
    lines = text.removesuffix("\n").split("\n")
    return (
        len(lines) > 1
        and bool(lines[0].strip())
        and not lines[0].startswith((" ", "\t"))
        and bool(lines[-1].strip())
        and printable(text, keep="\n\t") == text
    )
