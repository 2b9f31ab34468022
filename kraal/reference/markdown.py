"""Renders the manual as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kraal.config.key import Key
from kraal.config.key_families import Family
from kraal.reference.pages import Page, Section

INDEX = "README.md"
GENERATED_MARK = (
    "<!-- Made by `python -m kraal.reference` from the declarations in the code. Do not edit. -->"
)
_ABOUT = """\
All config keys of Kraal, generated from the declarations against which configs are validated. A running worker returns
the keys of its plugins: `GET /connector-plugins/NAME/config`. For differences from Kafka Connect, see
[compatibility](../compat.md).

*Type* is the type of the value; the entries of a list are separated by commas. *Default* applies if the key is missing;
`null` means no value. If a key has no effect, its description says so, and why."""


def render_files(pages: Sequence[Page]) -> dict[str, str]:
    """Render the manual; return the texts by file name."""
    return {INDEX: _render_index(pages), **{page.file: _render_page(page) for page in pages}}


def _render_index(pages: Sequence[Page]) -> str:
    lines = [GENERATED_MARK, "", "# Reference of config keys", _ABOUT, "", "| page | keys |", "|---|---|"]
    lines += [f"| [{page.title}]({page.file}) | {page.count} |" for page in pages]
    lines += [
        "",
        "## By name",
        "Without the settings of [Kafka's clients](clients.md).",
    ]
    lines += ["", "| key | of |", "|---|---|"]
    entries: dict[str, list[str]] = {}
    for page, section in _sections(pages):
        title = page.title if section.title == "Keys" else f"{page.title}: {section.title}"
        for each in section.entries:
            link = f"[{title}]({page.file}#{_anchor(section, each)})"
            entries.setdefault(each.name, []).append(link)
    lines += [f"| `{name}` | {', '.join(entries[name])} |" for name in sorted(entries)]
    return "\n".join(lines) + "\n"


def _sections(pages: Sequence[Page]) -> Iterator[tuple[Page, Section]]:
    """Yield the pages and sections that the index lists."""
    return ((page, section) for page in pages for section in page.sections if not section.as_table)


def _render_page(page: Page) -> str:
    lines = [GENERATED_MARK, "", f"# {page.title}", page.text, "", f"[All pages]({INDEX})"]
    for section in page.sections:
        lines += ["", f"## {section.title}", *([section.text] if section.text else [])]
        if section.as_table:
            lines += _render_table(section)
            continue
        for each in section.entries:
            lines += ["", f'### <a id="{_anchor(section, each)}"></a>{each.name}', each.documentation or ""]
            if isinstance(each, Key):
                lines += ["", *(f"- {name}: {text}" for name, text in _facts(each))]
    return "\n".join(lines) + "\n"


def _render_table(section: Section) -> list[str]:
    lines = [
        "",
        "| key | type | default | valid values | importance | what it does |",
        "|---|---|---|---|---|---|",
    ]
    for key in section.keys:
        facts = dict(_facts(key))
        cells = [f'<a id="{_anchor(section, key)}"></a>`{key.name}`']
        cells += [facts.get(name, "") for name in ("Type", "Default", "Valid values", "Importance")]
        lines.append(f"| {' | '.join([*cells, key.documentation or ''])} |")
    return lines


def _facts(key: Key) -> Iterator[tuple[str, str]]:
    yield "Type", key.type.lower()
    yield "Default", _format_default(key)
    if key.valid_values:
        yield "Valid values", key.valid_values
    yield "Importance", key.importance.lower()
    if key.group is not None:
        yield "Group", f"{key.group}, {key.order}"
    if key.display_name:
        yield "Shown as", key.display_name
    if key.dependents:
        yield "Other keys depend on it", ", ".join(f"`{name}`" for name in key.dependents)


def _format_default(key: Key) -> str:
    if key.required:
        return "none (required)"
    text = key.default_text
    if text is None:
        return "null"
    return f"`{text}`" if text else "empty"


def _anchor(section: Section, each: Key | Family) -> str:
    return section.slug + each.name
