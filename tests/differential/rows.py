"""Reads the rows of docs/compat.md that the suite uses: the rows with an id in the column `seen`."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[2] / "docs" / "compat.md"
COLUMN: Final = "seen"
_ROW_ID: Final = re.compile(r"`([a-z0-9-]+)`")
_CELL_SEPARATOR: Final = re.compile(r"(?<!\\)\|")


def ids_in(page: str) -> Counter[str]:
    """Count the ids in the column `seen` of all tables of a page. The column must be the last one of its table.

    Raises ValueError for a cell without an id.
    """
    ids: Counter[str] = Counter()
    width = 0
    for line in page.splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = [cell.strip() for cell in _CELL_SEPARATOR.split(line)[1:-1]]
        if cells[-1] == COLUMN:
            width = len(cells)
        elif len(cells) == width and not re.fullmatch("-+", cells[-1]):
            match = _ROW_ID.fullmatch(cells[-1])
            if match is None:
                raise ValueError(f"{cells[-1]!r} is no id of a row: {line}")
            ids[match[1]] += 1
    return ids
