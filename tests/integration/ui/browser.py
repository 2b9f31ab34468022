"""A Chromium process, to which Playwright is connected."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.harness.processes import Running, wait_until
from tests.integration.ui.chromium import Chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 2.0
LOCALE: Final = "en_US.UTF-8"
"""Without a locale, Chromium reports an invalid language tag, which breaks scripts that format numbers."""
FONTS: Final = """<?xml version="1.0"?>
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir>{fonts}</dir>
  <alias binding="same"><family>sans-serif</family><prefer><family>Open Sans</family></prefer></alias>
  <alias binding="same"><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
  <cachedir>{cache}</cachedir>
</fontconfig>
"""


@contextmanager
def run_browser(chromium: Chromium, playwright: Playwright) -> Iterator[Browser]:
    """Run a browser with a new profile. Raises ScriptFailed if the browser does not start.

    Each test uses its own browser, which starts in a tenth of a second. A Chromium with `--single-process` crashes when
    a context or a tab is closed, so the browser is stopped with all of them open.
    """
    with tempfile.TemporaryDirectory(prefix="kraal-chromium-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        environment = {**os.environ, "LANG": LOCALE, "LC_ALL": LOCALE, **chromium.environment}
        if chromium.fonts is not None:
            (home / "fonts.conf").write_text(
                FONTS.format(fonts=chromium.fonts, cache=home / "fonts-cache"), encoding="utf-8"
            )
            environment["FONTCONFIG_FILE"] = str(home / "fonts.conf")
        process = Running(
            [
                str(chromium.program),
                *chromium.flags,
                "--remote-debugging-port=0",
                f"--user-data-dir={home / 'profile'}",
            ],
            log=home / "log",
            cwd=home,
            env=environment,
        )
        try:
            port_file = home / "profile" / "DevToolsActivePort"
            wait_until(
                "Chromium listened",
                lambda: _address(port_file) is not None,
                timeout_s=START_TIMEOUT_S,
                every_s=0.01,
                program=process,
            )
            yield playwright.chromium.connect_over_cdp(str(_address(port_file)))
        finally:
            process.stop(STOP_TIMEOUT_S)


def _address(path: Path) -> str | None:
    """Return the debugging URL in a browser's file, or None while the file is incomplete."""
    lines = path.read_text(encoding="ascii").splitlines() if path.is_file() else []
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}" if len(lines) > 1 and lines[1] else None
