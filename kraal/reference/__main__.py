"""`python -m kraal.reference` writes docs/reference and docs/connectors, or a manual of all plugins in a folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from kraal.reference.connector_pages import connector_files, shipped_connectors
from kraal.reference.markdown import files
from kraal.reference.pages import pages

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"
CONNECTORS = ROOT / "docs" / "connectors"
EXAMPLES = ROOT / "examples"


def main(folder: Path | None) -> None:
    """Write the pages; in the project's own folder, also remove obsolete files and write the connectors' pages."""
    if folder is None and not (ROOT / "pyproject.toml").is_file():
        sys.exit(
            "This is not a clone of Kraal; name the directory to write to, as in python -m kraal.reference DIRECTORY"
        )
    target = folder or FOLDER
    target.mkdir(parents=True, exist_ok=True)
    _write(target, files(pages(others=folder is not None)), others_go=folder is None)
    if folder is None:
        _write(CONNECTORS, pages_of_connectors(), others_go=True)


def pages_of_connectors() -> dict[str, str]:
    """Return the files of docs/connectors: hand-written pages with generated parts, and generated pages."""
    return connector_files(shipped_connectors(), _texts(CONNECTORS, "*.md"), _texts(EXAMPLES, "*.properties"))


def _texts(folder: Path, pattern: str) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in folder.glob(pattern)}


def _write(folder: Path, made: Mapping[str, str], *, others_go: bool) -> None:
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    for old in folder.glob("*.md") if others_go else ():
        if old.name not in made:
            old.unlink()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m kraal.reference", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="where to write the manual of all plugins")
    main(parser.parse_args().folder)
