"""Runs checks concurrently, each within a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kraal.core.printable import join_lines
from kraal.doctor.finding import Finding, Level

Check = Callable[[], Iterable[Finding]]

TIMEOUT_S: Final = 30.0


def run_checks(checks: Mapping[str, Check], limit_s: float = TIMEOUT_S) -> list[Finding]:
    """Return the findings of all checks, in order; a failure or timeout of a check is a finding itself.

    Each check runs on a separate thread; `limit_s` limits the total time of all checks. A thread that exceeds the limit
    does not prevent the process from exiting.
    """
    findings: dict[str, list[Finding]] = {name: [] for name in checks}

    def run(name: str, check: Check) -> None:
        try:
            for finding in check():
                findings[name].append(finding)
        except Exception as exc:  # noqa: BLE001 - a failed check must not hide the other findings
            findings[name].append(_crash_finding(f"The check of {name} failed: {join_lines(repr(exc))}"))

    threads = {
        name: threading.Thread(target=run, args=(name, check), name=f"doctor {name}", daemon=True)
        for name, check in checks.items()
    }
    deadline_s = time.monotonic() + limit_s
    for thread in threads.values():
        thread.start()
    for name, thread in threads.items():
        thread.join(max(0.0, deadline_s - time.monotonic()))
        if thread.is_alive():
            findings[name] = [
                *findings[name],
                _crash_finding(f"The check of {name} took more than {limit_s:g} s"),
            ]
    return [finding for check_findings in findings.values() for finding in check_findings]


def _crash_finding(what: str) -> Finding:
    return Finding("doctor.check", Level.WARNING, what)
