"""`python -m kraal.reference` writes docs/reference; with a folder, a manual there, of all installed plugins."""

from __future__ import annotations

import sys
from pathlib import Path

from kraal.reference.connector_pages import with_keys
from kraal.reference.markdown import files
from kraal.reference.pages import pages

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"
CONNECTORS = ROOT / "docs" / "connectors"


def main(folder: Path | None) -> None:
    """Write the pages; in our own folder, files of former pages go, and connectors' pages get their keys."""
    if folder is None and not (ROOT / "pyproject.toml").is_file():
        sys.exit(
            "This is no checkout of Kraal: say where to write, as in python -m kraal.reference DIRECTORY"
        )
    target = folder or FOLDER
    target.mkdir(parents=True, exist_ok=True)
    made = files(pages(others=folder is not None))
    for name, text in made.items():
        (target / name).write_text(text, encoding="utf-8")
    for page in CONNECTORS.glob("*.md") if folder is None else ():
        page.write_text(with_keys(page.read_text("utf-8")), encoding="utf-8")
    for old in target.glob("*.md") if folder is None else ():
        if old.name not in made:
            old.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
