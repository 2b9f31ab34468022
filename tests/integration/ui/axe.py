"""axe-core on a page: what stands between the page and people with disabilities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCRIPT: Final = Path(__file__).with_name("vendored") / "axe.min.js"
LIMIT: Final = ("serious", "critical")


def violations(page: Page) -> list[str]:
    """Return a line for each serious or critical violation: impact, rule, the rule's text and the first elements."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(SCRIPT.read_text(encoding="utf-8"))  # by the debugger, which the CSP does not concern
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{each['impact']} {each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found
        if each["impact"] in LIMIT
    ]
