"""`python -m tests.kips` writes docs/kips.md; with a folder, it compares the lists with the KIPs' texts there."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.kips.page import PAGE, compare, page

if len(sys.argv) > 1:
    sys.exit("\n".join(compare(Path(sys.argv[1]))) or 0)
PAGE.write_text(page(), "utf-8")
