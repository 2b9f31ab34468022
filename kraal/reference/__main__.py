"""`python -m kraal.reference` writes docs/reference; with a folder, a manual there, of all installed plugins."""

from __future__ import annotations

import sys
from pathlib import Path

from kraal.reference.markdown import files
from kraal.reference.pages import pages

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"


def main(folder: Path | None) -> None:
    """Write the pages; files of former pages stay."""
    target = folder or FOLDER
    target.mkdir(parents=True, exist_ok=True)
    for name, text in files(pages(others=folder is not None)).items():
        (target / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
