"""The manual of config keys is made of their declarations, is not stale, and leaves nothing out."""

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
from kraal.reference.connector_pages import Shipped, connector_files, shipped_connectors
from kraal.reference.markdown import INDEX, MADE, files
from kraal.reference.pages import Page, pages
from kraal.testing._simulation.worker import DEFAULTS

ROOT = Path(__file__).parents[2]
PAGES = pages()
ENTRIES = [(page, entry) for page in PAGES for section in page.sections for entry in section.entries]
KEYS = [(page, entry) for page, entry in ENTRIES if isinstance(entry, Key)]
CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
ELSEWHERE = {
    ROOT / "kraal/config/clients/librdkafka.py",
    ROOT / "kraal/engine/client_options.py",
    ROOT / "kraal/converters/schema_registry/client.py",
}
"""They speak librdkafka's, Spark's and the registry's client's words as well."""
CLUSTER = {
    "bootstrap.servers": "127.0.0.1:9092",
    "group.id": "group",
    "key.converter": CONVERTER,
    "value.converter": CONVERTER,
    **{f"{topic}.storage.topic": topic for topic in ("config", "offset", "status")},
}


def test_the_manual_is_not_stale() -> None:
    written = {path.name: path.read_text("utf-8") for path in command.FOLDER.glob("*.md")}
    stale = "docs/reference is stale: run python -m kraal.reference"
    assert written.keys() == files(PAGES).keys(), stale
    assert [name for name, text in files(PAGES).items() if written[name] != text] == [], stale


def test_the_pages_of_connectors_are_not_stale() -> None:
    written = {path.name: path.read_text("utf-8") for path in command.CONNECTORS.glob("*.md")}
    stale = "docs/connectors is stale: run python -m kraal.reference"
    made = command.pages_of_connectors()
    assert written.keys() == made.keys(), stale
    assert [name for name, text in made.items() if written[name] != text] == [], stale


@pytest.mark.parametrize("connector", shipped_connectors(), ids=lambda each: each.short)
def test_every_connector_has_a_page_with_its_keys_and_an_example(connector: Shipped) -> None:
    index = (command.CONNECTORS / INDEX).read_text("utf-8")
    row = re.search(
        rf"^\| \[{connector.short}\]\((.*?)\) \| {connector.cls.kind} \| (.*) \|$", index, re.MULTILINE
    )
    assert row is not None
    page = (command.CONNECTORS / row[1]).read_text("utf-8")
    assert [key.name for key in connector.cls.config_def if f"| `{key.name}` |" not in page] == []
    assert f"connector.class={connector.name}\n" in page or f"connector.class={connector.short}\n" in page
    assert row[2], f"examples/ has no file for {connector.short}"


def test_a_connector_without_a_page_gets_one_and_former_ones_go() -> None:
    some = [each for each in shipped_connectors() if each.short in {"VerifiableSource", "VerifiableSink"}]
    mine = "# Mine\n<!-- keys of VerifiableSink, made by `python -m kraal.reference` -->\nold\n<!-- end -->\n"
    examples = {
        "a.properties": "# Numbers. More: x\nconnector.class=VerifiableSource\ntopic=t\n",
        "worker.properties": "a=b",
    }
    written = {"mine.md": mine, "gone.md": f"{MADE}\n# Gone\n", "other.md": "by hand"}
    made = connector_files(some, written, examples)
    assert made.keys() == {"mine.md", "verifiable-source.md", "other.md", INDEX}
    assert made["mine.md"] == mine.replace("old", "None of its own.")
    assert "| `throughput` | long | required |" in made["verifiable-source.md"]
    shown = (
        "`examples/a.properties`. Numbers.\n```properties\nconnector.class=VerifiableSource\ntopic=t\n```\n"
    )
    assert made["verifiable-source.md"].endswith(shown)
    assert connector_files(some, made, examples) == made


def test_the_command_writes_every_page_into_a_folder(tmp_path: Path) -> None:
    command.main(tmp_path / "manual")
    assert {path.name for path in (tmp_path / "manual").iterdir()} == {INDEX, *(page.file for page in PAGES)}


def test_the_command_requires_a_directory_outside_of_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match="name the directory to write to"):
        command.main(None)


def test_links_within_the_manual_lead_to_keys() -> None:
    made = files(PAGES)
    anchors = {name: re.findall(r'<a id="([^"]+)"', text) for name, text in made.items()}
    assert [name for name, found in anchors.items() if max(Counter(found).values(), default=1) > 1] == []
    links = [link for text in made.values() for link in re.findall(r"\]\(([\w-]+\.md)#([^)]+)\)", text)]
    assert len(links) > 100
    assert [link for link in links if link[1] not in anchors[link[0]]] == []


def test_tables_have_as_many_cells_in_every_line() -> None:
    for text in files(PAGES).values():
        rows = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
        assert [row for row in rows if len({line.count("|") for line in row.splitlines()}) > 1] == []


def test_every_key_has_a_text_that_is_a_sentence() -> None:
    wrong = [
        (page.file, entry.name)
        for page, entry in ENTRIES
        if not re.fullmatch(r"[A-Z0-9].{8,}\.", entry.doc or "") or (entry.doc or "").endswith("..")
    ]
    assert wrong == []


def test_a_text_does_not_just_repeat_the_name() -> None:
    def letters(text: str) -> str:
        return re.sub(r"[^a-z]", "", text.lower())

    assert [key.name for _, key in KEYS if letters(key.doc or "") == letters(key.name)] == []


def test_every_client_setting_has_a_text_and_every_text_has_a_setting() -> None:
    assert client_texts().keys() == client_names()


def test_reasons_are_the_ends_of_sentences() -> None:
    assert [entry.name for _, entry in ENTRIES if entry.no_effect.endswith((".", " "))] == []


def test_every_check_says_what_it_lets_pass() -> None:
    assert [key.name for _, key in KEYS if key.validator is not None and not key.valid_values] == []


def test_every_default_passes_its_own_check() -> None:
    wrong = [
        error
        for _, key in KEYS
        if not key.required and key.default is not None and key.validator is not None
        for error in [key.validator(key.name, key.default)]
        if error is not None
    ]
    assert wrong == []


def test_every_default_is_of_its_type() -> None:
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


def test_every_key_without_effect_is_in_compat() -> None:
    """`errors.*` there stands for all keys that start so; settings of clients are there by what they are of."""
    compat = (ROOT / "docs" / "compat.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z][a-z.*-]+)`", compat))
    idle = {entry.name for page, entry in ENTRIES if entry.no_effect and page.file != "clients.md"}
    idle -= own_client_keys()
    assert {name for name in idle if not any(fnmatch(name, pattern) for pattern in named)} == set()


def on_pages(*names: str) -> Iterator[Key | Family]:
    return (entry for page, entry in ENTRIES if page.file in names)


@pytest.mark.parametrize("mode", ["standalone", "distributed"])
def test_every_key_that_a_worker_takes_is_in_the_manual(mode: str) -> None:
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
def test_a_worker_warns_of_keys_that_are_not_in_the_manual(mode: str, key: str) -> None:
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
def test_a_worker_warns_of_keys_that_have_no_effect(key: Key | Family) -> None:
    name = key.name.replace("KEY", "x")
    text = key.default_text or "x" if isinstance(key, Key) else "x"
    warnings = parse_standalone({**DEFAULTS, name: text}).warnings
    assert f"{name} is ignored: {key.no_effect}." in warnings


def literals(tree: ast.AST) -> Iterator[str]:
    """Yield the keys that code asks a config for: `config["a.b"]`, `.get("a.b")`, `text("a.b")`."""
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


def test_code_asks_for_no_key_that_is_not_declared() -> None:
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


def test_pages_count_what_is_on_them() -> None:
    page = Page(file="x.md", title="X", text="", sections=PAGES[0].sections)
    assert page.count == sum(len(section.entries) for section in page.sections)
