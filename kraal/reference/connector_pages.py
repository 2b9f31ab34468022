"""Generates the pages of connectors, or inserts tables of keys and example files into hand-written pages.

A hand-written page marks generated parts by `<!-- keys of NAME, made by … -->` or
`<!-- examples of NAME, made by … -->`, and `<!-- end -->`; it is the page of each connector whose keys it contains.
The pages of all other connectors are generated from their declarations. The index lists all connectors.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kraal.config.key import ConfigDef, Key
from kraal.config.properties_file import parse_properties
from kraal.plugins.api import Connector
from kraal.plugins.entries import CONNECTORS_GROUP, installed
from kraal.reference.markdown import GENERATED_MARK, INDEX

_PART: Final = re.compile(
    r"(<!-- (keys|examples) of (\w+), made by `python -m kraal.reference` -->\n).*?(<!-- end -->)", re.DOTALL
)
_KEYS: Final = re.compile(r"<!-- keys of (\w+), made by `python -m kraal.reference` -->\n")
_OWN_PACKAGE: Final = "kraal."
_COMMON: Final = "In addition to the keys of [every connector](../reference/connectors.md)"


@dataclass(frozen=True, slots=True)
class ShippedConnector:
    """A connector bundled with Kraal. `name` is its full name."""

    name: str
    cls: type[Connector]

    @property
    def names(self) -> tuple[str, str, str]:
        """Accepted values of `connector.class`, the shortest last."""
        simple = self.name.rpartition(".")[2]
        return self.name, simple, simple.removesuffix("Connector")

    @property
    def short(self) -> str:
        """The name used in pages."""
        return self.names[2]

    @property
    def file(self) -> str:
        """The file name of the generated page: `spark-source.md` for SparkSource."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", self.short).lower() + ".md"


def shipped_connectors() -> list[ShippedConnector]:
    """Import and return the connectors bundled with Kraal, sorted by short name."""
    connectors = []
    for entry in installed(CONNECTORS_GROUP):
        if entry.value.startswith(_OWN_PACKAGE):
            loaded = entry.load()
            if isinstance(loaded, type) and issubclass(loaded, Connector):
                connectors.append(ShippedConnector(entry.name, loaded))
    return sorted(connectors, key=lambda each: each.short)


def connector_files(
    connectors: Iterable[ShippedConnector], existing: Mapping[str, str], examples: Mapping[str, str]
) -> dict[str, str]:
    """Return the updated pages of all connectors by file name.

    `existing` are the present pages, and `examples` the property files, by file name. Raises KeyError if a page
    refers to an unknown connector.
    """
    by_name = {each.short: each for each in connectors}
    configs = {name: parse_properties(text, name, "example") for name, text in examples.items()}
    examples_by_connector = {
        each.short: {
            name: examples[name]
            for name, config in configs.items()
            if config.get("connector.class") in each.names
        }
        for each in by_name.values()
    }
    pages = {
        name: _fill_parts(text, by_name, examples_by_connector)
        for name, text in existing.items()
        if not text.startswith(GENERATED_MARK)
    }
    page_names = {short: name for name, text in pages.items() for short in _KEYS.findall(text)}
    for short, each in by_name.items():
        if short not in page_names:
            page_names[short] = each.file
            pages[each.file] = _render_page(each, examples_by_connector[short])
    return {**pages, INDEX: _render_index(by_name, page_names, examples_by_connector)}


def render_key_table(keys: Iterable[Key]) -> str:
    """Render a table of keys, in the order of declaration."""
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key in keys:
        default = "required" if key.required else key.default_text
        allowed = f" Valid values: {key.valid_values}." if key.valid_values else ""
        default = "null" if default is None else default or "empty"
        lines.append(f"| `{key.name}` | {key.type.lower()} | {default} | {key.documentation}{allowed} |")
    return "\n".join(lines) + "\n"


def _fill_parts(
    page: str, connectors: Mapping[str, ShippedConnector], examples: Mapping[str, Mapping[str, str]]
) -> str:
    def render(match: re.Match[str]) -> str:
        connector = connectors[match[3]]
        text = (
            _render_table(connector.cls.config_def)
            if match[2] == "keys"
            else _format_examples(examples[match[3]])
        )
        return match[1] + text + match[4]

    return _PART.sub(render, page)


def _render_table(keys: ConfigDef) -> str:
    return render_key_table(keys) if tuple(keys) else "None of its own.\n"


def _format_examples(examples: Mapping[str, str]) -> str:
    """Render example files, each without its first comment, which refers to the page."""
    return "\n".join(_render_blocks(examples)) if examples else "There is none yet.\n"


def _render_blocks(examples: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(examples):
        lines = examples[name].splitlines()
        comment = lines.pop(0).removeprefix("# ").partition(" More: ")[0] if lines[0].startswith("# ") else ""
        body = "\n".join(lines)
        yield f"`examples/{name}`. {comment}".rstrip() + f"\n```properties\n{body}\n```\n"


def _render_page(connector: ShippedConnector, examples: Mapping[str, str]) -> str:
    full, simple, short = connector.names
    about = inspect.cleandoc(connector.cls.__doc__ or "")
    kind = f"A {connector.cls.kind}. `connector.class` is `{full}`, `{simple}` or `{short}`."
    return "\n".join(
        [
            *(GENERATED_MARK, "", f"# {short}", about, "", kind, ""),
            *("## Keys", f"{_COMMON}.", "", _render_table(connector.cls.config_def)),
            *("## Examples", _format_examples(examples)),
        ]
    )


def _render_index(
    connectors: Mapping[str, ShippedConnector],
    page_names: Mapping[str, str],
    examples: Mapping[str, Mapping[str, str]],
) -> str:
    lines = [
        GENERATED_MARK,
        "",
        "# Connectors",
        f"The connectors bundled with Kraal. {_COMMON}, each has its own keys.",
    ]
    lines += ["", "| connector | kind | examples |", "|---|---|---|"]
    for short, each in connectors.items():
        files = ", ".join(f"[{name}](../../examples/{name})" for name in sorted(examples[short]))
        lines.append(f"| [{short}]({page_names[short]}) | {each.cls.kind} | {files} |")
    return "\n".join(lines) + "\n"
