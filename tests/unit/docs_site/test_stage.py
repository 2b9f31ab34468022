from __future__ import annotations

from pathlib import Path

import pytest

from scripts.docs_site.pages import FILES, FOLDERS, PAGES, stage


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with empty pages."""
    repository = tmp_path / "repository"
    for name in (*PAGES, *FILES):
        write(repository / name, "")
    for name in FOLDERS:
        (repository / name).mkdir(exist_ok=True)
    return repository


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def convert_page(root: Path, text: str) -> str:
    """Return a converted page below docs/."""
    write(root / "docs" / "page.md", text)
    target = root.parent / "pages"
    stage(root, target)
    return (target / "docs" / "page.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Text:\n- one\n- two\n", "Text:\n\n- one\n- two\n"),
        ("Text:\n1. one\n2. two\n", "Text:\n\n1. one\n2. two\n"),
        ("- one\n  - two\n- three\n", "- one\n    - two\n- three\n"),
        ("- one\n  more\n- two\n", "- one\n  more\n- two\n"),
        ("Text:\n| a |\n|---|\n| 1 |\n", "Text:\n\n| a |\n|---|\n| 1 |\n"),
        ("# Title\n| a |\n|---|\n", "# Title\n| a |\n|---|\n"),
        ("| `a\\|b` | c\\|d |\n", "| `a|b` | c\\|d |\n"),
        ("`a\\|b`\n", "`a\\|b`\n"),
        ("<!-- Made by\nsomething. -->\n\n# Title\n", "# Title\n"),
        ("# Title\n<!-- stays -->\n", "# Title\n<!-- stays -->\n"),
    ],
)
def test_markdown_is_converted_for_python_markdown(root: Path, text: str, expected: str) -> None:
    assert convert_page(root, text) == expected


@pytest.mark.parametrize("text", ["```text\nText:\n- one\n[x](../src/)\n```\n", "~~~\n```\n- x\n~~~\n"])
def test_code_blocks_are_unchanged(root: Path, text: str) -> None:
    assert convert_page(root, text) == text


def test_text_after_a_code_block_is_converted(root: Path) -> None:
    assert convert_page(root, "```\ncode\n```\nText:\n- one\n") == "```\ncode\n```\nText:\n\n- one\n"


def test_links_to_files_of_the_site_are_unchanged(root: Path) -> None:
    write(root / "examples" / "a.properties", "a=b\n")
    text = "[a](../examples/a.properties) [b](page.md#c) [d](https://example.org/) [e](#f)\n"
    assert convert_page(root, text) == text


def test_links_to_directories_become_links_to_their_pages(root: Path) -> None:
    write(root / "docs" / "more" / "README.md", "")
    assert convert_page(root, "[a](more/) [b](more#c)\n") == "[a](more/README.md) [b](more/README.md#c)\n"


def test_links_to_source_files_become_text(root: Path) -> None:
    write(root / "tests" / "test_x.py", "")
    assert (
        convert_page(root, "see [`a` b](../tests/test_x.py) in [tests](../tests).\n")
        == "see `a` b in tests.\n"
    )


def test_links_in_code_are_unchanged(root: Path) -> None:
    write(root / "tests" / "test_x.py", "")
    assert convert_page(root, "`[a](../tests)` and [b](../tests)\n") == "`[a](../tests)` and b\n"


def test_linked_deployment_files_are_copied(root: Path) -> None:
    write(root / "deploy" / "rules.yml", "groups: []\n")
    write(root / "deploy" / "unlinked.yml", "")
    text = "[rules](../deploy/rules.yml)\n"
    assert convert_page(root, text) == text
    assert [path.name for path in (root.parent / "pages" / "deploy").iterdir()] == ["rules.yml"]


def test_broken_links_are_unchanged(root: Path) -> None:
    assert convert_page(root, "[a](missing.md)\n") == "[a](missing.md)\n"


def test_pages_of_an_earlier_build_are_removed(root: Path) -> None:
    write(root.parent / "pages" / "old.md", "")
    convert_page(root, "")
    assert not (root.parent / "pages" / "old.md").exists()
