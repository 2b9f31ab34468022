"""Accessibility checks of pages with axe-core."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import Page

AXE_SCRIPT: Final = Path(__file__).parents[1] / "vendored" / "axe.min.js"
REPORTED_IMPACTS: Final = ("serious", "critical")
CONTRAST_RULE: Final = "color-contrast"
"""The only rule that depends on colors."""


def violations_in_both_schemes(page: Page) -> list[str]:
    """Return all violations in the light scheme and contrast violations in the dark one. Selects the light scheme."""
    page.emulate_media(color_scheme="dark")
    dark_violations = [f"dark: {violation}" for violation in violations(page, [CONTRAST_RULE])]
    page.emulate_media(color_scheme="light")
    return [*violations(page), *dark_violations]


def violations(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """Return a line per serious or critical violation: impact, rule, help text and first elements.

    `rules` are the ids of the rules to check (default: all).
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(
            AXE_SCRIPT.read_text(encoding="utf-8")
        )  # by the debugger, which is not subject to the CSP
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found_violations = page.evaluate("options => axe.run(document, options)", options)["violations"]
    return [
        f"{violation['impact']} {violation['id']}: {violation['help']}: "
        f"{[node['html'][:200] for node in violation['nodes'][:3]]}"
        for violation in found_violations
        if violation["impact"] in REPORTED_IMPACTS
    ]
