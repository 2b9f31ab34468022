"""`kraal ui` as a process, for any worker."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scripts.harness.processes import Running, wait_until

START_TIMEOUT_S: Final = 30.0
_URL_LINE: Final = re.compile(r"The dashboard of \S+ is at (http://\S+)/ui/")
_ROOT: Final = Path(__file__).parents[4]


@contextmanager
def kraal_ui(directory: Path, worker_url: str, *options: str) -> Iterator[str]:
    """Run `kraal ui` for a worker and yield its URL, without a trailing slash. Raises ScriptFailed."""
    code = "from kraal.cli.main import main; main()"
    directory.mkdir(parents=True, exist_ok=True)
    process = Running(
        [sys.executable, "-c", code, "ui", "--url", worker_url, "--listen", "127.0.0.1:0", *options],
        log=directory / "ui.log",
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONUNBUFFERED": "1"},
    )
    try:
        wait_until(
            "kraal ui listened",
            lambda: _find_url(process) is not None,
            timeout_s=START_TIMEOUT_S,
            program=process,
        )
        yield str(_find_url(process))
    finally:
        process.stop()


def _find_url(process: Running) -> str | None:
    match = _URL_LINE.search(process.log.read_text(encoding="utf-8", errors="replace"))
    return match[1] if match else None
