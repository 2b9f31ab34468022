"""Pages of connectors: fills tables of keys and example files into hand-written pages, and generates all others.

A hand-written page marks generated parts by `<!-- keys of NAME, made by … -->` or
`<!-- examples of NAME, made by … -->`, and `<!-- end -->`; it is the page of each connector whose keys it contains.
Other connectors get a page generated from their declarations. The index lists all.
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
from kraal.reference.markdown import INDEX, MADE

_PART: Final = re.compile(
    r"(<!-- (keys|examples) of (\w+), made by `python -m kraal.reference` -->\n).*?(<!-- end -->)", re.DOTALL
)
_KEYS: Final = re.compile(r"<!-- keys of (\w+), made by `python -m kraal.reference` -->\n")
_OWN_PACKAGE: Final = "kraal."
_COMMON: Final = "Beside those of [every connector](../reference/connectors.md)"


@dataclass(frozen=True, slots=True)
class Shipped:
    """A connector that comes with Kraal, by its full name."""

    name: str
    cls: type[Connector]

    @property
    def names(self) -> tuple[str, str, str]:
        """Accepted values of `connector.class`, the shortest last."""
        simple = self.name.rpartition(".")[2]
        return self.name, simple, simple.removesuffix("Connector")

    @property
    def short(self) -> str:
        """The name that pages use."""
        return self.names[2]

    @property
    def file(self) -> str:
        """File name of its generated page: `spark-source.md` for SparkSource."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", self.short).lower() + ".md"


def shipped_connectors() -> list[Shipped]:
    """Return the connectors that come with Kraal, by their short names. Imports them."""
    found = []
    for entry in installed(CONNECTORS_GROUP):
        if entry.value.startswith(_OWN_PACKAGE):
            loaded = entry.load()
            if isinstance(loaded, type) and issubclass(loaded, Connector):
                found.append(Shipped(entry.name, loaded))
    return sorted(found, key=lambda each: each.short)


def connector_files(
    connectors: Iterable[Shipped], written: Mapping[str, str], examples: Mapping[str, str]
) -> dict[str, str]:
    """Return all up-to-date pages of connectors by file name; `written` are the existing pages.

    `examples` are property files, by name. Raises KeyError for a mark with an unknown connector.
    """
    known = {each.short: each for each in connectors}
    configs = {name: parse_properties(text, name, "example") for name, text in examples.items()}
    of = {
        each.short: {
            name: examples[name]
            for name, config in configs.items()
            if config.get("connector.class") in each.names
        }
        for each in known.values()
    }
    pages = {name: _fill(text, known, of) for name, text in written.items() if not text.startswith(MADE)}
    where = {short: name for name, text in pages.items() for short in _KEYS.findall(text)}
    for short, each in known.items():
        if short not in where:
            where[short] = each.file
            pages[each.file] = _page(each, of[short])
    return {**pages, INDEX: _index(known, where, of)}


def table(keys: Iterable[Key]) -> str:
    """Return a table of keys, in the order of declaration."""
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key in keys:
        default = "required" if key.required else key.default_text
        allowed = f" Valid values: {key.valid_values}." if key.valid_values else ""
        default = "null" if default is None else default or "empty"
        lines.append(f"| `{key.name}` | {key.type.lower()} | {default} | {key.documentation}{allowed} |")
    return "\n".join(lines) + "\n"


def _fill(page: str, known: Mapping[str, Shipped], examples: Mapping[str, Mapping[str, str]]) -> str:
    def make(found: re.Match[str]) -> str:
        connector = known[found[3]]
        text = (
            _render_table(connector.cls.config_def)
            if found[2] == "keys"
            else _format_examples(examples[found[3]])
        )
        return found[1] + text + found[4]

    return _PART.sub(make, page)


def _render_table(keys: ConfigDef) -> str:
    return table(keys) if tuple(keys) else "None of its own.\n"


def _format_examples(examples: Mapping[str, str]) -> str:
    """Return example files, each without its first comment, which refers to the page."""
    return "\n".join(_blocks(examples)) if examples else "There is none yet.\n"


def _blocks(examples: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(examples):
        lines = examples[name].splitlines()
        comment = lines.pop(0).removeprefix("# ").partition(" More: ")[0] if lines[0].startswith("# ") else ""
        body = "\n".join(lines)
        yield f"`examples/{name}`. {comment}".rstrip() + f"\n```properties\n{body}\n```\n"


def _page(connector: Shipped, examples: Mapping[str, str]) -> str:
    full, simple, short = connector.names
    about = inspect.cleandoc(connector.cls.__doc__ or "")
    kind = f"A {connector.cls.kind}. `connector.class` is `{full}`, `{simple}` or `{short}`."
    return "\n".join(
        [
            *(MADE, "", f"# {short}", about, "", kind, ""),
            *("## Keys", f"{_COMMON}.", "", _render_table(connector.cls.config_def)),
            *("## Examples", _format_examples(examples)),
        ]
    )


def _index(
    known: Mapping[str, Shipped], where: Mapping[str, str], examples: Mapping[str, Mapping[str, str]]
) -> str:
    lines = [MADE, "", "# Connectors", f"Those that come with Kraal. {_COMMON}, each has keys of its own."]
    lines += ["", "| connector | kind | examples |", "|---|---|---|"]
    for short, each in known.items():
        files = ", ".join(f"[{name}](../../examples/{name})" for name in sorted(examples[short]))
        lines.append(f"| [{short}]({where[short]}) | {each.cls.kind} | {files} |")
    return "\n".join(lines) + "\n"
