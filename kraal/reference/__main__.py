"""`python -m kraal.reference` writes docs/reference and docs/connectors, or a manual of all installed plugins."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from kraal.reference.connector_pages import connector_files, shipped_connectors
from kraal.reference.markdown import render_files
from kraal.reference.pages import build_pages

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"
CONNECTORS = ROOT / "docs" / "connectors"
EXAMPLES = ROOT / "examples"


def main(folder: Path | None) -> None:
    """Write the manual to a folder; without a folder, update docs/reference and docs/connectors."""
    if folder is None and not (ROOT / "pyproject.toml").is_file():
        sys.exit(
            "This is not a clone of Kraal; name the directory to write to, as in python -m kraal.reference DIRECTORY"
        )
    target = folder or FOLDER
    target.mkdir(parents=True, exist_ok=True)
    _write_pages(
        target, render_files(build_pages(third_party=folder is not None)), delete_obsolete=folder is None
    )
    if folder is None:
        _write_pages(CONNECTORS, generate_connector_pages(), delete_obsolete=True)


def generate_connector_pages() -> dict[str, str]:
    """Return the files of docs/connectors: hand-written pages with generated parts, and generated pages."""
    return connector_files(
        shipped_connectors(), _read_texts(CONNECTORS, "*.md"), _read_texts(EXAMPLES, "*.properties")
    )


def _read_texts(folder: Path, pattern: str) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in folder.glob(pattern)}


def _write_pages(folder: Path, page_texts: Mapping[str, str], *, delete_obsolete: bool) -> None:
    for name, text in page_texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    for path in folder.glob("*.md") if delete_obsolete else ():
        if path.name not in page_texts:
            path.unlink()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m kraal.reference", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="where to write the manual of all plugins")
    main(parser.parse_args().folder)
