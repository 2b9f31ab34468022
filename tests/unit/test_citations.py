"""Tests that sources cite only accessible documents, such as KIPs, golden files and pages in `docs/`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("actors", "web", "kraal", "java", "tests", "scripts")
PRIVATE_CITATION: Final = re.compile(
    r"\b[Cc]ontract [A-Z]?\d|\bscenarios? [A-Z]\d|\b(STYLE|HOUSE|NAMES|ANCHORS|SCENARIOS|CONTRACT)\.md"
    r"|(?: \(|# |\"\"\")(?:S[1-7]|F[1-6]|R1?\d|M[1-8]|C1?\d|D\d{1,2}|A\d{1,2})(?=[);:.])"
)
"""Names of documents and labels that are not in the repository."""
PAGE: Final = re.compile(r"\b((?:docs|tests)/[\w./-]+\.(?:md|py|json))\b")


def sources() -> list[Path]:
    files = [
        path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".java"}
    ]
    return sorted(path for path in files if path != Path(__file__))


def prose(path: Path, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yield the numbers and texts of lines that may be comments or docstrings, if the file contains a match."""
    text = path.read_text("utf-8")
    for number, line in enumerate(text.splitlines(), 1) if pattern.search(text) else ():
        if re.match(r'\s*(#|"""|\*|//|[A-Za-z(`>])', line):
            yield number, line


def test_sources_do_not_cite_private_documents() -> None:
    citations = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in sources()
        for number, line in prose(path, PRIVATE_CITATION)
        if (match := PRIVATE_CITATION.search(line))
    ]
    assert citations == []


@pytest.mark.parametrize("folder", ["actors", "web", "kraal", "java"])
def test_cited_pages_and_tests_exist(folder: str) -> None:
    missing_files = [
        f"{path.relative_to(ROOT)}:{number}: {name}"
        for path in sources()
        if path.is_relative_to(ROOT / folder)
        for number, line in prose(path, PAGE)
        for name in PAGE.findall(line)
        if not (ROOT / name).exists()
    ]
    assert missing_files == []
