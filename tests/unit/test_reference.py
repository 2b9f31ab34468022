"""The reference of config keys is generated from their declarations, up to date and complete."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from kraal.config.clients.keys import client_names
from kraal.config.clients.texts import client_texts
from kraal.config.key import ConfigType, Key
from kraal.config.key_families import Family
from kraal.config.worker.config import own_client_keys
from kraal.config.worker.distributed import parse_distributed
from kraal.config.worker.distributed_keys import DISTRIBUTED, TOPIC_FAMILIES, TOPIC_SETTINGS
from kraal.config.worker.keys import STANDALONE, WORKER_FAMILIES
from kraal.config.worker.standalone import parse_standalone
from kraal.reference import __main__ as command
from kraal.reference.connector_pages import ShippedConnector, connector_files, shipped_connectors
from kraal.reference.markdown import GENERATED_MARK, INDEX, render_files
from kraal.reference.pages import Page, build_pages
from kraal.testing._simulation.worker import DEFAULTS

ROOT = Path(__file__).parents[2]
PAGES = build_pages()
ENTRIES = [(page, entry) for page in PAGES for section in page.sections for entry in section.entries]
KEYS = [(page, entry) for page, entry in ENTRIES if isinstance(entry, Key)]
CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
ELSEWHERE = {
    ROOT / "kraal/config/clients/librdkafka.py",
    ROOT / "kraal/engine/client_options.py",
    ROOT / "kraal/converters/schema_registry/client.py",
}
"""Modules that also use settings of librdkafka, Spark and the registry client."""
CLUSTER = {
    "bootstrap.servers": "127.0.0.1:9092",
    "group.id": "group",
    "key.converter": CONVERTER,
    "value.converter": CONVERTER,
    **{f"{topic}.storage.topic": topic for topic in ("config", "offset", "status")},
}


def test_reference_is_up_to_date() -> None:
    written = {path.name: path.read_text("utf-8") for path in command.FOLDER.glob("*.md")}
    stale = "docs/reference is stale: run python -m kraal.reference"
    assert written.keys() == render_files(PAGES).keys(), stale
    assert [name for name, text in render_files(PAGES).items() if written[name] != text] == [], stale


def test_connector_pages_are_up_to_date() -> None:
    written = {path.name: path.read_text("utf-8") for path in command.CONNECTORS.glob("*.md")}
    stale = "docs/connectors is stale: run python -m kraal.reference"
    generated = command.generate_connector_pages()
    assert written.keys() == generated.keys(), stale
    assert [name for name, text in generated.items() if written[name] != text] == [], stale


@pytest.mark.parametrize("connector", shipped_connectors(), ids=lambda each: each.short)
def test_connector_has_a_page_with_keys_and_an_example(connector: ShippedConnector) -> None:
    index = (command.CONNECTORS / INDEX).read_text("utf-8")
    row = re.search(
        rf"^\| \[{connector.short}\]\((.*?)\) \| {connector.cls.kind} \| (.*) \|$", index, re.MULTILINE
    )
    assert row is not None
    page = (command.CONNECTORS / row[1]).read_text("utf-8")
    assert [key.name for key in connector.cls.config_def if f"| `{key.name}` |" not in page] == []
    assert f"connector.class={connector.name}\n" in page or f"connector.class={connector.short}\n" in page
    assert row[2], f"examples/ has no file for {connector.short}"


def test_missing_pages_are_created_and_obsolete_ones_removed() -> None:
    some = [each for each in shipped_connectors() if each.short in {"VerifiableSource", "VerifiableSink"}]
    mine = "# Mine\n<!-- keys of VerifiableSink, made by `python -m kraal.reference` -->\nold\n<!-- end -->\n"
    examples = {
        "a.properties": "# Numbers. More: x\nconnector.class=VerifiableSource\ntopic=t\n",
        "worker.properties": "a=b",
    }
    written = {"mine.md": mine, "gone.md": f"{GENERATED_MARK}\n# Gone\n", "other.md": "by hand"}
    generated = connector_files(some, written, examples)
    assert generated.keys() == {"mine.md", "verifiable-source.md", "other.md", INDEX}
    assert generated["mine.md"] == mine.replace("old", "None of its own.")
    assert "| `throughput` | long | required |" in generated["verifiable-source.md"]
    shown = (
        "`examples/a.properties`. Numbers.\n```properties\nconnector.class=VerifiableSource\ntopic=t\n```\n"
    )
    assert generated["verifiable-source.md"].endswith(shown)
    assert connector_files(some, generated, examples) == generated


def test_command_writes_every_page_to_a_directory(tmp_path: Path) -> None:
    command.main(tmp_path / "manual")
    assert {path.name for path in (tmp_path / "manual").iterdir()} == {INDEX, *(page.file for page in PAGES)}


def test_command_requires_a_directory_outside_of_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match="name the directory to write to"):
        command.main(None)


def test_links_within_the_reference_refer_to_keys() -> None:
    generated = render_files(PAGES)
    anchors = {name: re.findall(r'<a id="([^"]+)"', text) for name, text in generated.items()}
    assert [name for name, found in anchors.items() if max(Counter(found).values(), default=1) > 1] == []
    links = [link for text in generated.values() for link in re.findall(r"\]\(([\w-]+\.md)#([^)]+)\)", text)]
    assert len(links) > 100
    assert [link for link in links if link[1] not in anchors[link[0]]] == []


def test_table_rows_have_equal_numbers_of_cells() -> None:
    for text in render_files(PAGES).values():
        rows = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
        assert [row for row in rows if len({line.count("|") for line in row.splitlines()}) > 1] == []


def test_key_descriptions_are_sentences() -> None:
    wrong = [
        (page.file, entry.name)
        for page, entry in ENTRIES
        if not re.fullmatch(r"[A-Z0-9].{8,}\.", entry.doc or "") or (entry.doc or "").endswith("..")
    ]
    assert wrong == []


def test_key_descriptions_do_not_repeat_the_name() -> None:
    def letters(text: str) -> str:
        return re.sub(r"[^a-z]", "", text.lower())

    assert [key.name for _, key in KEYS if letters(key.doc or "") == letters(key.name)] == []


def test_client_settings_and_descriptions_match() -> None:
    assert client_texts().keys() == client_names()


def test_reasons_for_no_effect_complete_a_sentence() -> None:
    assert [entry.name for _, entry in ENTRIES if entry.no_effect.endswith((".", " "))] == []


def test_validators_describe_valid_values() -> None:
    assert [key.name for _, key in KEYS if key.validator is not None and not key.valid_values] == []


def test_defaults_pass_validation() -> None:
    wrong = [
        error
        for _, key in KEYS
        if not key.required and key.default is not None and key.validator is not None
        for error in [key.validator(key.name, key.default)]
        if error is not None
    ]
    assert wrong == []


def test_defaults_have_the_type_of_their_key() -> None:
    types = {
        ConfigType.BOOLEAN: bool, ConfigType.STRING: str, ConfigType.CLASS: str, ConfigType.LIST: tuple,
        ConfigType.INT: int, ConfigType.SHORT: int, ConfigType.LONG: int, ConfigType.DOUBLE: float,
    }  # fmt: skip
    given = [key for _, key in KEYS if not key.required and key.default is not None]
    assert [key.name for key in given if type(key.default) is not types[key.type]] == []


def test_dependents_are_declared_with_the_key() -> None:
    for page in PAGES:
        for section in page.sections:
            names = {entry.name for entry in section.entries}
            assert [key.name for key in section.keys if not set(key.dependents) <= names] == []


def test_keys_without_effect_are_documented_in_compat() -> None:
    """`errors.*` documents all keys with that prefix; client settings are documented by client."""
    compat = (ROOT / "docs" / "compat.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z][a-z.*-]+)`", compat))
    idle = {entry.name for page, entry in ENTRIES if entry.no_effect and page.file != "clients.md"}
    idle -= own_client_keys()
    assert {name for name in idle if not any(fnmatch(name, pattern) for pattern in named)} == set()


def on_pages(*names: str) -> Iterator[Key | Family]:
    return (entry for page, entry in ENTRIES if page.file in names)


@pytest.mark.parametrize("mode", ["standalone", "distributed"])
def test_worker_keys_are_in_the_reference(mode: str) -> None:
    listed = {entry.name for entry in on_pages("worker.md", f"{mode}.md")}
    definition = {key.name for key in (STANDALONE if mode == "standalone" else DISTRIBUTED)}
    assert (definition | own_client_keys()) - listed == set()
    families = {entry.prefix for entry in on_pages("worker.md", f"{mode}.md") if isinstance(entry, Family)}
    assert families == {
        each.prefix for each in (*WORKER_FAMILIES, *(TOPIC_FAMILIES if mode == "distributed" else ()))
    }


@pytest.mark.parametrize("mode", ["standalone", "distributed"])
@pytest.mark.parametrize(
    "key",
    [
        "ssl.keystroe.location",
        "sasl.mechanisms",
        "security.protocl",
        "listener",
        "zork",
        "spark",
        "metrics.contexts.a",
    ],
)
def test_worker_warns_about_undocumented_keys(mode: str, key: str) -> None:
    if mode == "standalone":
        warnings = parse_standalone({**DEFAULTS, key: "1"}).warnings
    else:
        warnings = parse_distributed({**CLUSTER, key: "1"}).warnings
    assert any(
        warning.startswith(f"{key} is ignored: no such configuration is known") for warning in warnings
    )


@pytest.mark.parametrize(
    "key", [entry for entry in on_pages("worker.md") if entry.no_effect], ids=lambda entry: entry.name
)
def test_worker_warns_about_keys_without_effect(key: Key | Family) -> None:
    name = key.name.replace("KEY", "x")
    text = key.default_text or "x" if isinstance(key, Key) else "x"
    warnings = parse_standalone({**DEFAULTS, name: text}).warnings
    assert f"{name} is ignored: {key.no_effect}." in warnings


def literals(tree: ast.AST) -> Iterator[str]:
    """Yield the config keys that code reads: `config["a.b"]`, `.get("a.b")`, `text("a.b")`."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(slice=ast.Constant(value=str(name))):
                yield name
            case ast.Call(
                func=ast.Attribute(attr="get" | "text" | "number" | "seconds")
                | ast.Name(id="text" | "number" | "seconds"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name
            case _:
                pass


def test_code_reads_only_declared_keys() -> None:
    declared = {entry.name for _, entry in ENTRIES} | TOPIC_SETTINGS
    families = tuple(entry.prefix for _, entry in ENTRIES if isinstance(entry, Family))
    found = [path for folder in ("actors", "web", "kraal") for path in (ROOT / folder).rglob("*.py")]
    files_of = [
        path for path in found if not path.is_relative_to(ROOT / "kraal/testing") and path not in ELSEWHERE
    ]
    asked = {
        name: path.relative_to(ROOT)
        for path in files_of
        for name in literals(ast.parse(path.read_text("utf-8")))
        if re.fullmatch(r"[a-z]+(\.[a-z]+)+", name)
    }
    assert len(asked) > 40
    assert {
        name: path for name, path in asked.items() if name not in declared and not name.startswith(families)
    } == {}


def test_pages_state_their_number_of_keys() -> None:
    page = Page(file="x.md", title="X", text="", sections=PAGES[0].sections)
    assert page.count == sum(len(section.entries) for section in page.sections)
