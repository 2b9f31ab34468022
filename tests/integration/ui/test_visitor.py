"""Tests that the visitor detects errors of faulty pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.integration.ui.stage.axe import violations
from tests.integration.ui.visitor import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.ci


@pytest.mark.parametrize(
    ("body", "script", "problem"),
    [
        ("<h1>fine</h1>", "document.title = 'fine'", None),
        ("<h1>wrong</h1>", "console.error('something')", "error in the console: something"),
        ("<h1>wrong</h1>", "console.warn('something')", "warning in the console: something"),
        ("<h1>wrong</h1>", "throw new Error('something')", "error of a script: something"),
        ("<img src='data:,' onerror='0'>", "", "violation of the policy: script-src-attr inline"),
        ("<h1 style='color: red'>wrong</h1>", "", "violation of the policy: style-src-attr inline"),
        ("<img src='/missing' alt=''>", "", "404"),
    ],
)
def test_page_errors_are_detected(
    browser: Browser, serve_page: Callable[[str, str], str], body: str, script: str, problem: str | None
) -> None:
    visitor = Visitor(browser)
    visitor.open(serve_page(body, script))
    problems = visitor.problems()
    if problem is None:
        assert problems == []
    else:
        assert any(problem in text for text in problems), problems
        visitor.expect(".")
        assert visitor.problems() == []


def test_axe_detects_accessibility_violations(browser: Browser, serve_page: Callable[[str], str]) -> None:
    visitor = Visitor(browser)
    page = visitor.open(serve_page("<h1>fine</h1>"))
    assert violations(page) == []
    page = visitor.open(serve_page("<h1>wrong</h1><input><img src='/own.js'>"))
    assert {violation.partition(":")[0] for violation in violations(page)} == {
        "critical label",
        "critical image-alt",
    }
