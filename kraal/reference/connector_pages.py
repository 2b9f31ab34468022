"""The tables of keys in the hand-written pages of connectors, made from the declarations between two marks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kraal.config.key import ConfigDef, Key
from kraal.config.mirror import MIRROR
from kraal.config.spark_sink import SPARK_SINK
from kraal.config.spark_source import SPARK_SOURCE

_TABLE: Final = re.compile(
    r"(<!-- keys of (\w+), made by `python -m kraal.reference` -->\n).*?(<!-- end -->)", re.DOTALL
)
_DEFINITIONS: Final[dict[str, ConfigDef]] = {
    "SparkSource": SPARK_SOURCE,
    "SparkSink": SPARK_SINK,
    "MirrorSource": MIRROR,
}


def with_keys(page: str) -> str:
    """Return a page with its tables as they are declared now. Raises KeyError for a mark that names no connector."""
    return _TABLE.sub(lambda found: found[1] + table(_DEFINITIONS[found[2]]) + found[3], page)


def table(keys: Iterable[Key]) -> str:
    """Return a table of keys, in their order."""
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key in keys:
        default = "required" if key.required else key.default_text
        allowed = f" Valid values: {key.valid_values}." if key.valid_values else ""
        default = "null" if default is None else default or "empty"
        lines.append(f"| `{key.name}` | {key.type.lower()} | {default} | {key.documentation}{allowed} |")
    return "\n".join(lines) + "\n"
