"""A visitor that opens pages in a browser and collects the errors of the pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

WAIT_MS: Final = 10_000
UNAVAILABLE_ERRORS: Final = (
    "ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_SOCKET_NOT_CONNECTED|ERR_INCOMPLETE_CHUNKED_ENCODING"
    "|ERR_EMPTY_RESPONSE|htmx:afterRequest|htmx:sendError"
)
"""Errors of pages whose worker is stopped."""
REPORTED_TYPES: Final = ("error", "warning")
REPORT_SCRIPT: Final = """document.addEventListener("securitypolicyviolation", event =>
    console.error("violation of the policy:", event.violatedDirective, event.blockedURI, event.sample))"""
"""Script that runs in every page before the page's own scripts."""


class Visitor:
    """A visitor that opens pages in one browser, and collects console errors, script errors and CSP violations.

    Not thread-safe. Pages and contexts stay open until `close`, or until the browser ends.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._expected_patterns: list[re.Pattern[str]] = []
        self._problems: list[str] = []
        self._pages: list[Page] = []

    def open(
        self,
        url: str,
        *,
        beside: Page | None = None,
        is_dark: bool = False,
        width: int = 1280,
        height: int = 900,
        **options: Any,
    ) -> Page:
        """Open a page in a new profile, or in the profile of the page `beside`, with the options of that page.

        `options` are passed to Playwright's `new_context`.
        """
        context = beside.context if beside is not None else None
        if context is None:
            context = self._browser.new_context(
                color_scheme="dark" if is_dark else "light",
                viewport={"width": width, "height": height},
                locale="en-GB",
                timezone_id="Europe/Zurich",
                **options,
            )
            context.add_init_script(REPORT_SCRIPT)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self._record_problem(f"error of a script: {error}"))
        page.on("crash", lambda _page: self._record_problem("the page crashed"))
        page.goto(url)
        self._pages.append(page)  # a page that did not load may never respond
        return page

    def expect(self, pattern: str) -> None:
        """Ignore errors that match a pattern, because the test itself causes them."""
        self._expected_patterns.append(re.compile(pattern))

    def close(self) -> None:
        """Close all pages. Must be called before a server that pages have requested is stopped."""
        for page in self._pages:
            page.evaluate("0")  # afterwards, all earlier reports of the page have arrived
        for context in self._browser.contexts:
            context.close()
        self._pages.clear()

    def problems(self) -> list[str]:
        """Return the unexpected errors so far."""
        for page in self._pages:
            page.evaluate("0")  # as above
        return [
            problem
            for problem in self._problems
            if not any(pattern.search(problem) for pattern in self._expected_patterns)
        ]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in REPORTED_TYPES:
            self._record_problem(
                f"{message.type} in the console: {message.text} ({message.location.get('url', '')})"
            )

    def _record_problem(self, text: str) -> None:
        self._problems.append(text)
