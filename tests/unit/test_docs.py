"""Tests that the documentation matches the code, and that its examples run."""

from __future__ import annotations

import ast
import functools
import itertools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kraal.connectors.file.config import FILE_SINK, FILE_SOURCE

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
ARCHITECTURE = (DOCS / "ARCHITECTURE.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
PROPER_NAMES = {"Kafka", "Spark", "Engine"}
"""Names that the diagram may contain besides actors, messages and events."""
PROTOCOLS = {"Behaviour", "Membership"}
"""Protocols that have the methods of actors."""


def classes(path: Path) -> Iterator[ast.ClassDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))


def bases(node: ast.ClassDef) -> set[str]:
    return {
        name.id
        for base in node.bases
        for name in [base.value if isinstance(base, ast.Subscript) else base]
        if isinstance(name, ast.Name)
    }


def messages() -> set[str]:
    nodes = [node for path in (ROOT / "actors/messages").glob("*.py") for node in classes(path)]
    return {node.name for node in nodes if bases(node) & {"Ask", "Tell"}}


def engine_events() -> set[str]:
    return {node.name for node in classes(ROOT / "kraal/engine/api.py")}


def actors() -> set[str]:
    """Return the names of all classes that have the method `receive` or `on_work_changed`."""
    return {
        node.name
        for path in (ROOT / "actors").rglob("*.py")
        for node in classes(path)
        if {"receive", "on_work_changed"}
        & {method.name for method in node.body if isinstance(method, ast.FunctionDef)}
    }


def block(text: str, language: str, number: int = 0) -> str:
    """Return the text of the fenced code block with this language and number."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    return blocks[number]


def words(text: str) -> set[str]:
    return set(re.findall(r"\b[A-Z][a-z]\w*\b", text))


def test_actor_messages_are_found() -> None:
    assert {"PutConfig", "Append", "Assign", "RunReported", "Supervise"} <= messages()


def test_names_in_the_diagram_exist_in_the_code() -> None:
    diagram_names = words(block(ARCHITECTURE, "text"))
    assert diagram_names - messages() - engine_events() - actors() - PROPER_NAMES == set()


def test_every_message_is_documented() -> None:
    assert messages() - words(ARCHITECTURE) == set(), "add the messages to docs/ARCHITECTURE.md"


def test_every_actor_is_in_the_diagram() -> None:
    diagram_names = words(block(ARCHITECTURE, "text"))
    assert actors() - diagram_names - PROTOCOLS == set()


def test_every_run_event_is_in_the_diagram() -> None:
    text = (ROOT / "kraal/engine/api.py").read_text(encoding="utf-8")
    union = re.search(r"^RunEvent = (.*)$", text, re.MULTILINE)
    assert union is not None
    assert set(union[1].split(" | ")) - words(block(ARCHITECTURE, "text")) == set()


@functools.cache
def functions() -> frozenset[str]:
    """Return the names of all functions, with and without the names of their classes."""
    names = set()
    for path in itertools.chain.from_iterable(
        (ROOT / part).rglob("*.py") for part in ("actors", "kraal", "web")
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.ClassDef):
                methods = (
                    item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
                )
                names.update(f"{node.name}.{method.name}" for method in methods)
    return frozenset(names)


@pytest.mark.parametrize("subject", ["A source's batch", "A sink's batch", "A restart"])
def test_documented_stops_exist_and_match_their_count(subject: str) -> None:
    section = ARCHITECTURE[ARCHITECTURE.index(f"**{subject}") :]
    total = re.search(r": (\d+) stops", section)
    assert total is not None
    rows = [row.split("|")[1:-1] for row in section.split("\n\n")[1].splitlines()[2:]]
    calls = [cell.partition(";")[0].split(", ") for _, _, cell in rows]
    assert [len(row_calls) for row_calls in calls] == [int(count) for _, count, _ in rows]
    assert sum(map(len, calls)) == int(total[1])
    assert set(re.findall(r"`([^`]+)`", " ".join(cell for *_, cell in rows))) - functions() == set()


def test_documented_layers_equal_the_import_contract() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract.get("containers") == ["kraal"])
    assert block(ARCHITECTURE, "text", 1).split("\n")[:-1] == layers


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_refer_to_existing_files(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize(
    "page",
    [DOCS / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "README.md"],
    ids=lambda page: page.name,
)
def test_paths_in_documents_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    cited_paths = re.findall(r"`((?:actors|web|kraal|tests|scripts|docs)/[\w./-]*)`", text)
    assert [path for path in cited_paths if not (ROOT / path).exists()] == []


def test_decisions_are_numbered_consecutively() -> None:
    numbers = [path.name[:3] for path in sorted((DOCS / "decisions").glob("[0-9]*.md"))]
    assert numbers == [f"{number:03d}" for number in range(1, len(numbers) + 1)]


@pytest.mark.parametrize("heading", ["Context", "Decision", "Consequences", "Rejected"])
def test_decision_has_the_required_sections(heading: str) -> None:
    records = (DOCS / "decisions").glob("[0-9]*.md")
    texts = {path.name: path.read_text(encoding="utf-8") for path in records}
    assert [name for name, text in texts.items() if f"\n## {heading}\n" not in text] == []


def test_decisions_are_listed_in_the_index() -> None:
    entries = re.findall(
        r"^- \[(.+)\]\((.+)\)$", (DOCS / "decisions/README.md").read_text("utf-8"), re.MULTILINE
    )
    records = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    titles = [path.read_text("utf-8").partition("\n")[0].removeprefix("# ") for path in records]
    assert entries == [(title, path.name) for title, path in zip(titles, records, strict=True)]


def test_file_connector_manual_contains_every_key() -> None:
    manual = (DOCS / "connectors/file.md").read_text(encoding="utf-8")
    keys = {key.name for key in [*FILE_SOURCE, *FILE_SINK]}
    assert {key for key in keys if f"| `{key}` |" not in manual} == set()


def test_readme_connector_and_its_test_run(tmp_path: Path) -> None:
    run_examples("README.md", tmp_path)
    assert len((tmp_path / "test_counter.py").read_text("utf-8").splitlines()) < 30


def test_examples_without_spark_in_the_testing_manual_run(tmp_path: Path) -> None:
    run_examples("docs/testing.md", tmp_path, excluded_words=("Process", "SparkEngine"))


def run_examples(page: str, directory: Path, excluded_words: Sequence[str] = ()) -> None:
    """Run the examples of a page in a separate pytest process, except examples with any of the excluded words."""
    examples = re.findall(
        r'```python\n("""([\w]+\.py)""".*?)```', (ROOT / page).read_text("utf-8"), re.DOTALL
    )
    assert examples
    for text, name in examples:
        if not any(word in text for word in excluded_words):
            (directory / name).write_text(text, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "kraal.testing.pytest_plugin", str(directory)],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
